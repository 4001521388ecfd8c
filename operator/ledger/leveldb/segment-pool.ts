import { join } from 'node:path';
import { type Database, openDatabase } from './database.ts';
import { damage } from './failures.ts';
import { KEY_SPACE, numberKey } from './keys.ts';
import { readBatchMark } from './batch-marks.ts';
import { segmentName } from './segment-names.ts';
import type { SealedSegment } from './state.ts';

/** Sealed segments, opened when something reads them and closed again when too many are open. */
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
  /** Resolves the wait of an eviction. */
  idle?: () => void;
}

/** Each open segment costs some 3 MiB, and what of it is mapped. */
const MAX_IDLE_OPEN = 4;

export function createSegmentPool(directory: string): SegmentPool {
  // In order of last use.
  const entries = new Map<number, Entry>();

  const closeEntry = async (entry: Entry): Promise<void> => {
    // What cannot be closed has nothing left to lose: sealed segments are not written.
    await entry.database.then((database) => database.close()).catch(() => undefined);
  };
  const trim = async (): Promise<void> => {
    const idle = [...entries].filter(([, entry]) => entry.users === 0);
    for (const [number, entry] of idle.slice(0, Math.max(0, entries.size - MAX_IDLE_OPEN))) {
      entries.delete(number);
      await closeEntry(entry);
    }
  };
  const take = (segment: SealedSegment): Entry => {
    const number = segment.firstSequence;
    const entry = entries.get(number) ?? { database: openSealed(directory, segment), users: 0 };
    entries.delete(number);
    entries.set(number, entry);
    entry.users += 1;
    return entry;
  };

  return {
    async use(segment, work) {
      const entry = take(segment);
      try {
        return await work(await entry.database, segmentName(segment.firstSequence));
      } catch (error) {
        // One that could not be opened is tried afresh next time.
        entry.database.catch(() => entries.delete(segment.firstSequence));
        throw error;
      } finally {
        entry.users -= 1;
        if (entry.users === 0) entry.idle?.();
        await trim();
      }
    },
    async adopt(firstSequence, database) {
      entries.set(firstSequence, { database: Promise.resolve(database), users: 0 });
      await trim();
    },
    async evict(firstSequence) {
      const entry = entries.get(firstSequence);
      if (entry === undefined) return;
      entries.delete(firstSequence);
      if (entry.users > 0) {
        await new Promise<void>((resolve) => {
          entry.idle = resolve;
        });
      }
      await closeEntry(entry);
    },
    async close() {
      for (const number of entries.keys()) await this.evict(number);
    },
  };
}

/**
 * Opens a sealed segment and compares its end with the list. Throws a LedgerReadError when its last
 * event is gone or the chain differs there.
 */
async function openSealed(directory: string, segment: SealedSegment): Promise<Database> {
  const name = segmentName(segment.firstSequence);
  const database = await openDatabase(join(directory, name), 'sealed');
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
