import { join } from 'node:path';
import { type Database, noteDatabaseTables, openDatabase, readManifestNote } from './database.ts';
import { LedgerReadError } from '../ledger.ts';
import { damage, ledgerFailure } from '../failures.ts';
import { isLocked } from './failures.ts';
import { KEY_SPACE, numberKey } from './keys.ts';
import { readBatchMark } from './batch-marks.ts';
import { segmentName } from './segment-names.ts';
import type { SealedSegment } from './state.ts';

interface OpenSegment {
  readonly database: Promise<Database>;
  users: number;
  /** Whether nothing has used it since the last look. */
  rested: boolean;
  /** It was sealed a moment ago and has the buffers of one that is written to: it is closed soon, however much it is used. */
  readonly justSealed?: boolean;
  /** Resolves the wait of an eviction. */
  idle?: () => void;
}

/** Each open segment costs some 3 MiB, and up to 64 MiB of it that is mapped. */
const MAX_IDLE_OPEN = 2;
/** How often is looked for segments that nothing has used since. */
const REST_MS = 2_000;

/** Sealed segments, opened when something reads them and closed again when nothing does for a while, or too many are open. */
export class SegmentPool {
  readonly #directory: string;
  /** In order of last use. */
  readonly #open = new Map<number, OpenSegment>();
  /** LevelDB refuses to open a directory that is still being closed. */
  readonly #closing = new Map<number, Promise<void>>();
  readonly #resting: NodeJS.Timeout;

  constructor(directory: string, restMs = REST_MS) {
    this.#directory = directory;
    this.#resting = setInterval(() => void this.#closeRested(), restMs).unref();
  }

  /** Runs `work` with a sealed segment's database, which stays open meanwhile. */
  async use<T>(
    segment: SealedSegment,
    work: (database: Database, where: string) => Promise<T>,
  ): Promise<T> {
    const number = segment.firstSequence;
    const open = this.#take(segment);
    try {
      return await work(await open.database, segmentName(number));
    } finally {
      this.#release(number, open);
      await this.#trim();
    }
  }

  /** Takes over the database of a segment that has just been sealed. */
  async adopt(firstSequence: number, database: Database): Promise<void> {
    const open: OpenSegment = {
      database: Promise.resolve(database),
      users: 0,
      rested: false,
      justSealed: true,
    };
    this.#open.set(firstSequence, open);
    await this.#trim();
  }

  /** Closes a segment, once nothing reads it any more. */
  async evict(firstSequence: number): Promise<void> {
    const open = this.#open.get(firstSequence);
    if (open === undefined) return;
    this.#open.delete(firstSequence);
    if (open.users > 0) {
      await new Promise<void>((resolve) => {
        open.idle = resolve;
      });
    }
    await this.#close(firstSequence, open);
  }

  async close(): Promise<void> {
    clearInterval(this.#resting);
    for (const number of this.#open.keys()) await this.evict(number);
    await Promise.all(this.#closing.values());
  }

  #take(segment: SealedSegment): OpenSegment {
    const number = segment.firstSequence;
    const open: OpenSegment = this.#open.get(number) ?? {
      database: this.#openAfterClosing(segment),
      users: 0,
      rested: false,
    };
    this.#open.delete(number);
    this.#open.set(number, open);
    open.users += 1;
    if (open.justSealed !== true) open.rested = false;
    return open;
  }

  async #openAfterClosing(segment: SealedSegment): Promise<Database> {
    await this.#closing.get(segment.firstSequence);
    return openSealed(this.#directory, segment);
  }

  #release(number: number, open: OpenSegment): void {
    open.users -= 1;
    if (open.users === 0) open.idle?.();
    // One that could not be opened is tried afresh next time.
    open.database.catch(() => {
      if (this.#open.get(number) === open) this.#open.delete(number);
    });
  }

  async #trim(): Promise<void> {
    const idle = [...this.#open].filter(([, { users }]) => users === 0);
    const surplus = Math.max(0, this.#open.size - MAX_IDLE_OPEN);
    for (const [number, open] of idle.slice(0, surplus)) {
      // It may have been taken into use, or closed, while another one was being closed.
      if (this.#open.get(number) === open && open.users === 0) await this.#close(number, open);
    }
  }

  async #closeRested(): Promise<void> {
    for (const [number, open] of this.#open) {
      if (open.users > 0) continue;
      if (open.rested) await this.#close(number, open);
      else open.rested = true;
    }
  }

  async #close(number: number, open: OpenSegment): Promise<void> {
    if (this.#open.get(number) === open) this.#open.delete(number);
    // What cannot be closed has nothing to lose: sealed segments are not written.
    const closed = open.database.then(closeSealed).catch(() => undefined);
    this.#closing.set(number, closed);
    await closed;
    this.#closing.delete(number);
  }
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
