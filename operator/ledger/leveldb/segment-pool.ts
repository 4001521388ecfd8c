import { join } from 'node:path';
import { type Database, noteDatabaseTables, openDatabase, readManifestNote } from './database.ts';
import { LedgerReadError } from '../ledger.ts';
import { damage, isLocked, ledgerFailure } from './failures.ts';
import { KEY_SPACE, numberKey } from './keys.ts';
import { readBatchMark } from './batch-marks.ts';
import { segmentName } from './segment-names.ts';
import type { SealedSegment } from './state.ts';

/** Sealed segments, opened when something reads them and closed again when nothing does for a while, or too many are open. */
export interface SegmentPool {
  /** Runs `work` with a sealed segment's database, which stays open meanwhile. */
  use<T>(
    segment: SealedSegment,
    work: (database: Database, where: string) => Promise<T>,
  ): Promise<T>;
  /** Takes over the database of a segment that has just been sealed. */
  adopt(firstSequence: number, database: Database): Promise<void>;
  /** Closes a segment, once nothing reads it any more. */
  evict(firstSequence: number): Promise<void>;
  close(): Promise<void>;
}

interface Entry {
  readonly database: Promise<Database>;
  users: number;
  /** Whether nothing has used it since the last look. */
  rested: boolean;
  /** Resolves the wait of an eviction. */
  idle?: () => void;
}

/** Each open segment costs some 3 MiB, and up to 64 MiB of it that is mapped. */
const MAX_IDLE_OPEN = 2;
/** How often is looked for segments that nothing has used since. */
const REST_MS = 2_000;

export function createSegmentPool(directory: string, restMs = REST_MS): SegmentPool {
  // In order of last use.
  const entries = new Map<number, Entry>();
  // LevelDB refuses to open a directory that is still being closed.
  const closing = new Map<number, Promise<void>>();

  const closeEntry = async (number: number, entry: Entry): Promise<void> => {
    if (entries.get(number) === entry) entries.delete(number);
    // What cannot be closed has nothing to lose: sealed segments are not written.
    const closed = entry.database.then(closeSealed).catch(() => undefined);
    closing.set(number, closed);
    await closed;
    closing.delete(number);
  };
  const open = async (segment: SealedSegment): Promise<Database> => {
    await closing.get(segment.firstSequence);
    return openSealed(directory, segment);
  };
  const trim = async (): Promise<void> => {
    const idle = [...entries].filter(([, entry]) => entry.users === 0);
    const surplus = Math.max(0, entries.size - MAX_IDLE_OPEN);
    for (const [number, entry] of idle.slice(0, surplus)) {
      // It may have been taken into use, or closed, while another one was being closed.
      if (entries.get(number) === entry && entry.users === 0) await closeEntry(number, entry);
    }
  };
  const closeRested = async (): Promise<void> => {
    for (const [number, entry] of entries) {
      if (entry.users > 0) continue;
      if (entry.rested) await closeEntry(number, entry);
      else entry.rested = true;
    }
  };
  const resting = setInterval(() => void closeRested(), restMs).unref();
  const take = (segment: SealedSegment): Entry => {
    const number = segment.firstSequence;
    const entry = entries.get(number) ?? { database: open(segment), users: 0, rested: false };
    entries.delete(number);
    entries.set(number, entry);
    entry.users += 1;
    entry.rested = false;
    return entry;
  };
  const release = (segment: SealedSegment, entry: Entry): void => {
    entry.users -= 1;
    if (entry.users === 0) entry.idle?.();
    // One that could not be opened is tried afresh next time.
    entry.database.catch(() => {
      if (entries.get(segment.firstSequence) === entry) entries.delete(segment.firstSequence);
    });
  };
  const evict = async (number: number): Promise<void> => {
    const entry = entries.get(number);
    if (entry === undefined) return;
    entries.delete(number);
    if (entry.users > 0) {
      await new Promise<void>((resolve) => {
        entry.idle = resolve;
      });
    }
    await closeEntry(number, entry);
  };

  return {
    async use(segment, work) {
      const entry = take(segment);
      try {
        return await work(await entry.database, segmentName(segment.firstSequence));
      } finally {
        release(segment, entry);
        await trim();
      }
    },
    async adopt(firstSequence, database) {
      entries.set(firstSequence, {
        database: Promise.resolve(database),
        users: 0,
        rested: false,
      });
      await trim();
    },
    evict,
    async close() {
      clearInterval(resting);
      for (const number of entries.keys()) await evict(number);
      await Promise.all(closing.values());
    },
  };
}

async function closeSealed(database: Database): Promise<void> {
  await noteDatabaseTables(database);
  await database.close();
}

/**
 * Opens a sealed segment and compares its end with the list. Throws a LedgerReadError when its last
 * event is gone or the chain differs there.
 */
async function openSealed(directory: string, segment: SealedSegment): Promise<Database> {
  const name = segmentName(segment.firstSequence);
  await readManifestNote(join(directory, name));
  const database = await openDatabase(join(directory, name), 'sealed').catch((error: unknown) => {
    throw isLocked(error) ? lockedElsewhere(name) : error;
  });
  // What is still readable before the damage is read.
  if (segment.damage !== undefined) return database;
  try {
    const { lastSequence } = segment;
    const last = await database.get(numberKey(KEY_SPACE.event, lastSequence));
    const mark = await readBatchMark(database, name, lastSequence);
    if (last === undefined) throw damage(name, `event ${lastSequence}, its last, is missing`);
    if (mark?.chain !== segment.chain) {
      throw damage(
        name,
        `the chain at ${lastSequence} differs from the list: "${mark?.chain ?? ''}"`,
      );
    }
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Somebody looks into it, as an operator with a tool may: only the active segment's lock tells who owns the ledger. */
function lockedElsewhere(name: string): LedgerReadError {
  return new LedgerReadError(
    ledgerFailure('retryable', `ledger: ${name}: another process has this sealed segment open`),
  );
}
