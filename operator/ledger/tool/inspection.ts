import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import {
  checkManifest,
  type Database,
  openDatabase,
  readManifestNote,
} from '../leveldb/database.ts';
import { damage } from '../failures.ts';
import { isLocked } from '../leveldb/failures.ts';
import { readHead } from '../leveldb/head-file.ts';
import { readIdentity } from '../leveldb/identity.ts';
import { STATE_KEY, KEY_SPACE, keysOf } from '../leveldb/keys.ts';
import { listSegmentDirectories, segmentName } from '../leveldb/segment-names.ts';
import type { StreamView } from '../postgres/state.ts';
import { decodeState, type LedgerState, walkEntries } from '../leveldb/state.ts';

/** One segment of a ledger that no process has open. */
export interface InspectedSegment {
  readonly name: string;
  readonly database: Database;
  /** As of the last batch that was written into this segment. */
  readonly state: LedgerState;
}

/** A ledger directory, or one of its segments, opened for looking at. */
export interface Inspection {
  /** Directories of the segments, oldest first. */
  readonly paths: readonly string[];
  /** Opens a segment; close it with `done`. Throws a LedgerReadError when its files are damaged. */
  open(path: string): Promise<InspectedSegment>;
  done(segment: InspectedSegment): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens a directory. Throws a LevelDB error with code LEVEL_LOCKED when a process has the ledger
 * open: the active segment stays locked meanwhile, so that none can open it either.
 */
export async function openInspection(directory: string): Promise<Inspection> {
  const single = (await readdir(directory)).includes('CURRENT');
  const root = single ? dirname(directory) : directory;
  const { segments } = await listSegmentDirectories(root);
  const all = segments.map((number) => join(root, segmentName(number)));
  const newest = all.at(-1);
  const guard = newest === undefined ? undefined : await lockActive(newest);

  return {
    paths: single ? [directory] : all,
    async open(path) {
      if (guard !== undefined && path === newest) return inspect(path, guard);
      const database = await openChecked(path);
      return inspect(path, database).catch(async (error: unknown) => {
        await database.close();
        throw error;
      });
    },
    async done({ database }) {
      if (database !== guard) await database.close();
    },
    close: async () => guard?.close(),
  };
}

/** The segments one after the other; each is closed before the next. */
export async function* inspectSegments(
  directory: string,
): AsyncGenerator<InspectedSegment, void, void> {
  const inspection = await openInspection(directory);
  try {
    for (const path of inspection.paths) {
      const segment = await inspection.open(path);
      try {
        yield segment;
      } finally {
        await inspection.done(segment);
      }
    }
  } finally {
    await inspection.close();
  }
}

/** The active segment's database; undefined when it is too damaged to be opened, and so by nobody. */
async function lockActive(path: string): Promise<Database | undefined> {
  try {
    return await openChecked(path);
  } catch (error) {
    if (error instanceof HardLinkError) throw error;
    if (isLocked(error)) throw error;
    return undefined;
  }
}

/** Opening rewrites some of LevelDB's own files, so whatever would be lost by it is looked for first. */
async function openChecked(path: string): Promise<Database> {
  await refuseHardLinks(path);
  const noted = await readHead(dirname(path)).catch(() => undefined);
  if (noted?.manifest !== undefined && noted.segment === basename(path)) {
    await checkManifest(path, noted.manifest);
  } else {
    await readManifestNote(path);
  }
  return openDatabase(path, 'sealed');
}

async function inspect(path: string, database: Database): Promise<InspectedSegment> {
  const name = basename(path);
  const state = decodeState(await database.get(STATE_KEY));
  if (state === undefined) throw damage(name, 'the state is missing or damaged');
  return { name, database, state };
}

/** A file with a second name may belong to the original that a copy was meant to spare. */
async function refuseHardLinks(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const { nlink } = await stat(path);
    if (nlink > 1) {
      throw new HardLinkError(
        `${path}: a hard link: opening it would damage the original; copy it with cp -a: "${nlink} names"`,
      );
    }
  }
}

/** The directory is no copy of its own. */
export class HardLinkError extends Error {}

/** One line of JSON per segment, oldest first; the last one is active. */
export async function* describeSegments(directory: string): AsyncGenerator<string, void, void> {
  for await (const { name, state } of inspectSegments(directory)) {
    const { firstSequence, lastSequence, openedAt, bytes, starts, ends, chain } = state.segment;
    yield JSON.stringify({
      name,
      firstSequence,
      lastSequence,
      events: lastSequence - firstSequence + 1,
      openedAt: instant(openedAt),
      bytes,
      windowStarts: starts && [instant(starts.from), instant(starts.to)],
      windowEnds: ends && [instant(ends.from), instant(ends.to)],
      chain,
    });
  }
}

/** IDENTITY and HEAD, one line of JSON each. */
export async function* describeHead(directory: string): AsyncGenerator<string, void, void> {
  yield JSON.stringify({ identity: (await readIdentity(directory)) ?? null });
  yield JSON.stringify({ head: await readHead(directory) });
}

/** One line of JSON per cursor of a stream. */
export async function* describeStreamCursors({
  contents,
}: StreamView): AsyncGenerator<string, void, void> {
  for (const cursor of contents.cursors.values()) yield JSON.stringify(cursor);
}

/** One line of JSON per cursor. */
export async function* describeCursors(directory: string): AsyncGenerator<string, void, void> {
  const inspection = await openInspection(directory);
  try {
    const newest = inspection.paths.at(-1);
    if (newest === undefined) return;
    const { database, name } = await inspection.open(newest);
    for await (const [, , body] of walkEntries(database, name, keysOf(KEY_SPACE.cursor))) {
      yield body.toString();
    }
  } finally {
    await inspection.close();
  }
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}
