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
  /** The state after the last batch of this segment. */
  readonly state: LedgerState;
}

/** A ledger directory, or one of its segments, opened for reading. */
export interface LedgerInspection {
  /** Directories of the segments, oldest first. */
  readonly paths: readonly string[];
  /** Opens a segment; close it with `done`. Throws a LedgerReadError when its files are damaged. */
  open(path: string): Promise<InspectedSegment>;
  done(segment: InspectedSegment): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens a directory. Keeps the active segment locked, so that no operator can open the ledger
 * meanwhile. Throws a LevelDB error with code LEVEL_LOCKED if a process has it open.
 */
export async function openInspection(directory: string): Promise<LedgerInspection> {
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

/** The segments in order; each is closed before the next. */
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

/** The active segment's database; undefined if it is too damaged for any process to open. */
async function lockActive(path: string): Promise<Database | undefined> {
  try {
    return await openChecked(path);
  } catch (error) {
    if (error instanceof HardLinkError) throw error;
    if (isLocked(error)) throw error;
    return undefined;
  }
}

/** Opens a segment after checks for loss, because opening rewrites some of LevelDB's files. */
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

/** Refuses hard links: such a file may belong to the original of a copy. */
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

/** The directory shares files with another one. */
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
