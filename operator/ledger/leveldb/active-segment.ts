import { join } from 'node:path';
import { LedgerReadError } from '../ledger.ts';
import { checkManifest, type Database, openDatabase, readManifestNote } from './database.ts';
import { type Contents, readContents } from './entries.ts';
import { damage, ledgerFailure } from './failures.ts';
import { renameDurably } from './files.ts';
import type { Head } from './head-file.ts';
import { type IdFilter, readIdFilter } from './id-filter.ts';
import type { Identity } from './identity-file.ts';
import { listSegmentDirectories, NEXT_DIRECTORY, segmentName } from './segment-names.ts';

/** The segment that is written, opened. */
export interface ActiveSegment {
  readonly database: Database;
  readonly contents: Contents;
  readonly ids: IdFilter;
}

/**
 * Checks the files of the active segment, opens it and checks its state and entries
 * (docs/ledger-format.md, "At start", 3 to 5). Throws a LedgerReadError at damage.
 */
export async function openActiveSegment(
  directory: string,
  identity: Identity,
  noted: Head,
): Promise<ActiveSegment> {
  const firstSequence = await findActive(directory, noted);
  const name = segmentName(firstSequence);
  const path = join(directory, name);
  if (noted.segment === name && noted.manifest !== undefined) {
    await checkManifest(path, noted.manifest);
  } else {
    await readManifestNote(path);
  }
  const database = await openDatabase(path, 'active');
  try {
    if ((await findActive(directory, noted)) !== firstSequence) {
      const text = `ledger: ${directory}: another process has begun a new segment`;
      throw new LedgerReadError(ledgerFailure('fenced', text));
    }
    const contents = await readContents(database, name);
    const { ledgerId, segment } = contents.state;
    if (ledgerId !== identity.ledgerId) {
      throw damage(name, `belongs to another ledger than IDENTITY says: "${ledgerId}"`);
    }
    if (segment.firstSequence !== firstSequence) {
      throw damage(name, `its state belongs to segment "${segmentName(segment.firstSequence)}"`);
    }
    return { database, contents, ids: await readIdFilter(database) };
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function findActive(directory: string, noted: Head): Promise<number> {
  const { segments, leftovers } = await listSegmentDirectories(directory);
  const newest = segments.at(-1);
  if (newest === undefined && noted.batch === 0 && leftovers.includes(NEXT_DIRECTORY)) {
    // Setting up was interrupted after the ledger existed.
    await renameDurably(join(directory, NEXT_DIRECTORY), join(directory, segmentName(1)));
    return 1;
  }
  if (newest === undefined || segmentName(newest) < noted.segment) {
    throw damage(join(directory, noted.segment), 'missing');
  }
  return newest;
}
