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
  /** True if nothing has used it since the last check. */
  isUnused: boolean;
  /** It was just sealed and still has large write buffers: close it soon, even if it is used. */
  readonly justSealed?: boolean;
  /** Ends the wait of {@link SegmentPool.evict}. */
  idle?: () => void;
}

/** Each open segment costs about 3 MiB, and up to 64 MiB of mapped files. */
const MAX_IDLE_OPEN = 2;
/** How often unused segments are searched for. */
const IDLE_CHECK_MS = 2_000;

/**
 * The open sealed segments. Opens a segment at first use; closes it when it is unused for a while
 * or too many are open.
 */
export class SegmentPool {
  readonly #directory: string;
  /** In order of last use. */
  readonly #open = new Map<number, OpenSegment>();
  /** Segments being closed: LevelDB refuses to open them meanwhile. */
  readonly #closing = new Map<number, Promise<void>>();
  readonly #idleTimer: NodeJS.Timeout;

  constructor(directory: string, idleCheckMs = IDLE_CHECK_MS) {
    this.#directory = directory;
    this.#idleTimer = setInterval(() => void this.#closeUnused(), idleCheckMs).unref();
  }

  /** Runs `work` with a sealed segment's database and keeps it open meanwhile. */
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

  /** Adds the open database of a segment that was just sealed. */
  async adopt(firstSequence: number, database: Database): Promise<void> {
    const open: OpenSegment = {
      database: Promise.resolve(database),
      users: 0,
      isUnused: false,
      justSealed: true,
    };
    this.#open.set(firstSequence, open);
    await this.#trim();
  }

  /** Closes a segment when nothing reads it. */
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
    clearInterval(this.#idleTimer);
    for (const number of this.#open.keys()) await this.evict(number);
    await Promise.all(this.#closing.values());
  }

  #take(segment: SealedSegment): OpenSegment {
    const number = segment.firstSequence;
    const open: OpenSegment = this.#open.get(number) ?? {
      database: this.#openAfterClosing(segment),
      users: 0,
      isUnused: false,
    };
    this.#open.delete(number);
    this.#open.set(number, open);
    open.users += 1;
    if (open.justSealed !== true) open.isUnused = false;
    return open;
  }

  async #openAfterClosing(segment: SealedSegment): Promise<Database> {
    await this.#closing.get(segment.firstSequence);
    return openSealed(this.#directory, segment);
  }

  #release(number: number, open: OpenSegment): void {
    open.users -= 1;
    if (open.users === 0) open.idle?.();
    // A segment that could not be opened is opened again at the next use.
    open.database.catch(() => {
      if (this.#open.get(number) === open) this.#open.delete(number);
    });
  }

  async #trim(): Promise<void> {
    const idle = [...this.#open].filter(([, { users }]) => users === 0);
    const surplus = Math.max(0, this.#open.size - MAX_IDLE_OPEN);
    for (const [number, open] of idle.slice(0, surplus)) {
      // Meanwhile it may have been used again or closed.
      if (this.#open.get(number) === open && open.users === 0) await this.#close(number, open);
    }
  }

  async #closeUnused(): Promise<void> {
    for (const [number, open] of this.#open) {
      if (open.users > 0) continue;
      if (open.isUnused) await this.#close(number, open);
      else open.isUnused = true;
    }
  }

  async #close(number: number, open: OpenSegment): Promise<void> {
    if (this.#open.get(number) === open) this.#open.delete(number);
    // A failed close loses nothing: sealed segments are not written.
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
 * Opens a sealed segment and compares its end with the list. Throws a LedgerReadError if its last
 * event is missing or the chain differs there.
 */
async function openSealed(directory: string, segment: SealedSegment): Promise<Database> {
  const name = segmentName(segment.firstSequence);
  await readManifestNote(join(directory, name));
  const database = await openDatabase(join(directory, name), 'sealed').catch((error: unknown) => {
    throw isLocked(error) ? lockedElsewhere(name) : error;
  });
  // A damaged segment is readable up to the damage.
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

/**
 * Another process reads the segment, for example the ledger tool. That is no takeover: only the
 * lock of the active segment shows which process owns the ledger.
 */
function lockedElsewhere(name: string): LedgerReadError {
  return new LedgerReadError(
    ledgerFailure('retryable', `ledger: ${name}: another process has this sealed segment open`),
  );
}
