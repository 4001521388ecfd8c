import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LedgerReadError } from '../ledger.ts';
import { checkManifest, type Database, openDatabase, readManifestNote } from './database.ts';
import { damage, ledgerFailure, type Problems } from '../failures.ts';
import { missingRanges } from '../missing-ranges.ts';
import { renameDurably } from './files.ts';
import { readBatchMark } from './batch-marks.ts';
import type { Head } from './head-file.ts';
import { type IdFilter, readIdFilter } from './id-filter.ts';
import type { Identity } from './identity.ts';
import { discardSegment } from './retention.ts';
import type { PageStarts } from './page-starts.ts';
import { listSegmentDirectories, NEXT_DIRECTORY, segmentName } from './segment-names.ts';
import { type Contents, type LedgerState, readContents } from './state.ts';
import type { Store } from './store.ts';
import { findDamage } from './verify.ts';

/** The opened active segment. */
export interface ActiveSegment {
  readonly database: Database;
  readonly contents: Contents;
  readonly ids: IdFilter;
}

/**
 * Checks the files of the active segment, opens it, and checks its state and entries
 * (docs/reference/ledger-format.md#at-start, 3 to 5). Throws a LedgerReadError at damage.
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
    // Setting up was interrupted after IDENTITY was written.
    await renameDurably(join(directory, NEXT_DIRECTORY), join(directory, segmentName(1)));
    return 1;
  }
  if (newest === undefined || segmentName(newest) < noted.segment) {
    throw damage(join(directory, noted.segment), 'missing');
  }
  return newest;
}

/**
 * Reads every event of the active segment and compares its end with HEAD
 * (docs/reference/ledger-format.md#at-start, 6 and 7). Damage and loss become problems, and a new
 * segment begins after them. So no number is used twice and nothing is written into damaged files.
 */
export async function checkAgainstHead(
  store: Store,
  noted: Head,
  problems: Problems,
  pages: PageStarts,
): Promise<void> {
  const { state, sealed } = store.contents();
  const { active, activeName } = store.view();
  for (const line of sealed) {
    if (line.damage !== undefined && line.givenUp !== true) problems.add(line.damage);
  }

  const damage =
    (await findDamage(active, activeName, state, { ids: false, pages })) ??
    (await chainProblem(store, noted));
  if (damage !== undefined) problems.add(damage);
  const lost = lossOf(state, noted);
  if (lost !== undefined) problems.add(`ledger: ${activeName}: ${lost}`);

  const newest = Math.max(state.segment.lastSequence, noted.sequence);
  const empty = state.segment.lastSequence < state.segment.firstSequence;
  const mustBegin = newest > state.segment.lastSequence || (damage !== undefined && !empty);
  if (mustBegin) await store.roll(newest + 1, damage);
  else await store.note();

  const after = store.contents();
  for (const text of missingRanges([...after.sealed, after.state.segment])) problems.add(text);
}

function lossOf(state: LedgerState, noted: Head): string | undefined {
  if (state.batch >= noted.batch) return undefined;
  const last = state.segment.lastSequence;
  const events = last < noted.sequence ? `events ${last + 1} to ${noted.sequence}` : 'no event';
  return `the newest ${noted.batch - state.batch} batches are lost: ${events}, and what else they changed`;
}

/** The problem if the chain does not pass through the value in HEAD. */
async function chainProblem(store: Store, noted: Head): Promise<string | undefined> {
  const { active, activeName, segment } = store.view();
  if (noted.sequence < segment.firstSequence || noted.sequence > segment.lastSequence) {
    return undefined;
  }
  const mark = await readBatchMark(active, activeName, noted.sequence);
  if (mark?.chain === noted.chain) return undefined;
  return `ledger: ${activeName}: the chain at event ${noted.sequence} differs from HEAD: "${mark?.chain ?? ''}"`;
}

/** Finishes interrupted deletions and compares the directories with the list of segments. */
export async function clearLeftovers(
  directory: string,
  contents: Contents,
  problems: Problems,
): Promise<void> {
  const { segments, leftovers } = await listSegmentDirectories(directory);
  const known = new Set(
    [...contents.sealed, contents.state.segment].map((segment) => segment.firstSequence),
  );
  for (const name of leftovers) await rm(join(directory, name), { recursive: true, force: true });
  for (const number of segments) {
    if (known.has(number)) continue;
    if (number <= contents.state.lowWater) await discardSegment(directory, number);
    else problems.add(`ledger: ${segmentName(number)}: not in the list of segments`);
  }
  const found = new Set(segments);
  const givenUp = new Set(
    contents.sealed.filter((line) => line.givenUp === true).map((line) => line.firstSequence),
  );
  for (const number of known) {
    if (!found.has(number) && !givenUp.has(number))
      problems.add(`ledger: ${segmentName(number)}: missing`);
  }
}
