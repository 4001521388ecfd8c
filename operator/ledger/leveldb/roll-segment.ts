import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { checksumOf, sealValue, keySeed } from '../checked-value.ts';
import { createDatabase, type Database, type Operation, writeBatch } from './database.ts';
import type { Failpoints } from './failpoints.ts';
import { damage } from '../failures.ts';
import { renameDurably } from './files.ts';
import { ENTRY_SPACES, KEY_SPACE, keysOf, numberKey, STATE_KEY } from './keys.ts';
import { NEXT_DIRECTORY, segmentName } from './segment-names.ts';
import {
  type Contents,
  walkEntries,
  addEntry,
  encodeState,
  NO_ENTRIES,
  removeEntry,
  type SealedSegment,
} from './state.ts';

/** Bytes of entries that are copied at once, so that other work runs in between. */
const CHUNK_BYTES = 256 * 1024;
/** The last changes, which are copied while no write is possible. */
const FEW_CHANGES = 1_000;

/** The contents after sealing the active segment and beginning one at `firstSequence`. */
export function planRoll(
  before: Contents,
  firstSequence: number,
  now: number,
  damage?: string,
): Contents {
  const { state } = before;
  const line: SealedSegment = {
    ...state.segment,
    sealedAt: now,
    ...(damage !== undefined && { damage }),
  };
  const value = sealValue(keySeed(lineKey(line)), JSON.stringify(line));
  return {
    ...before,
    sealed: [...before.sealed, line],
    state: {
      ...state,
      batch: state.batch + 1,
      segment: {
        firstSequence,
        lastSequence: firstSequence - 1,
        firstChain: state.segment.chain,
        chain: state.segment.chain,
        openedAt: now,
        bytes: 0,
        foreignIds: false,
      },
      entries: addEntry(state.entries, checksumOf(value)),
    },
  };
}

/**
 * The next segment while it is prepared: a copy of all entries of the active one, which may change
 * meanwhile.
 *
 * 1. The entries are copied in the order of their keys, and each chunk as of its own moment. So
 *    changes behind the chunks that are copied need nothing.
 * 2. {@link noteChanges} collects all other changes. They are copied after each chunk.
 * 3. {@link finish} runs while nothing is written. It copies the last changes and compares all
 *    entries with the sum in the state.
 */
export class NextSegment {
  readonly #directory: string;
  readonly #source: Database;
  readonly #sourceName: string;
  readonly #failpoint: Failpoints;
  readonly #target: Database;
  #sum = NO_ENTRIES;
  #unwritten: Operation[] = [];
  /** All entries up to this key are copied. */
  #copiedTo: Buffer = Buffer.alloc(0);
  /** Keys of the entries that were changed and are not copied since, by their text. */
  #changed = new Map<string, Buffer>();
  #copying: Promise<void> = Promise.resolve();
  #isCopied = false;
  #isAbandoned = false;

  private constructor(
    directory: string,
    source: Database,
    sourceName: string,
    failpoint: Failpoints,
    target: Database,
  ) {
    this.#directory = directory;
    this.#source = source;
    this.#sourceName = sourceName;
    this.#failpoint = failpoint;
    this.#target = target;
  }

  /**
   * Creates it in `next/`, in place of what an interrupted preparation has left there. Begins to
   * copy.
   */
  static async create(
    directory: string,
    source: Database,
    sourceName: string,
    failpoint: Failpoints,
  ): Promise<NextSegment> {
    const draft = join(directory, NEXT_DIRECTORY);
    await failpoint('roll:before-create');
    await rm(draft, { recursive: true, force: true });
    const target = await createDatabase(draft);
    const next = new NextSegment(directory, source, sourceName, failpoint, target);
    next.#copying = next.#copyAll().finally(() => {
      next.#isCopied = true;
    });
    next.#copying.catch(() => undefined);
    return next;
  }

  /** Whether few changes are left to copy, or an error has ended the copying. */
  get isCopied(): boolean {
    return this.#isCopied;
  }

  /** Notes what a batch has changed. Call it when the batch is written, before the next one. */
  noteChanges(written: readonly Operation[]): void {
    for (const { key } of written) {
      if (ENTRY_SPACES.some((space) => space === key[0])) {
        this.#changed.set(key.toString('latin1'), key);
      }
    }
  }

  /**
   * Completes the planned segment and renames it into place. The rename is the switch: before it
   * the old segment is active, after it the new one. Throws a LedgerReadError if an entry is lost,
   * or the error that ended the copying.
   */
  async finish(planned: Contents): Promise<void> {
    await this.#copying;
    await this.#copyChanges();
    const line = planned.sealed.at(-1);
    if (line !== undefined) {
      const key = lineKey(line);
      this.#put(key, sealValue(keySeed(key), JSON.stringify(line)));
    }
    const { entries, segment } = planned.state;
    if (this.#sum.count !== entries.count || this.#sum.sum !== entries.sum) {
      throw damage(this.#sourceName, 'records or cursors are lost or out of date');
    }
    this.#unwritten.push({ type: 'put', key: STATE_KEY, value: encodeState(planned.state) });
    await this.#write();
    await this.#target.close();
    await this.#failpoint('roll:before-rename');
    const place = join(this.#directory, segmentName(segment.firstSequence));
    await renameDurably(this.#target.location, place);
    await this.#failpoint('roll:after-rename');
  }

  /** Ends the copying and deletes `next/`. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true;
    await this.#copying.catch(() => undefined);
    await this.#target.close();
    await rm(this.#target.location, { recursive: true, force: true });
  }

  async #copyAll(): Promise<void> {
    for (const space of ENTRY_SPACES) {
      const { gte, lt } = keysOf(space);
      while (!this.#isAbandoned && (await this.#readChunk(gte, lt))) {
        await this.#failpoint('roll:copying');
        await this.#write();
        await this.#copyChanges();
      }
      this.#copiedTo = lt;
    }
    while (!this.#isAbandoned && this.#changed.size > FEW_CHANGES) await this.#copyChanges();
  }

  /** Reads the next entries of a range of keys. Returns false at the end of the range. */
  async #readChunk(gte: Buffer, lt: Buffer): Promise<boolean> {
    const isBegun = Buffer.compare(this.#copiedTo, gte) > 0;
    const range = isBegun ? { gt: this.#copiedTo, lt } : { gte, lt };
    let bytes = 0;
    for await (const [key, value] of walkEntries(this.#source, this.#sourceName, range)) {
      this.#put(key, value);
      this.#copiedTo = key;
      bytes += key.length + value.length;
      if (bytes >= CHUNK_BYTES) return true;
    }
    return false;
  }

  async #copyChanges(): Promise<void> {
    const changed = [...this.#changed.values()];
    this.#changed.clear();
    const keys = changed.filter((key) => Buffer.compare(key, this.#copiedTo) <= 0);
    if (keys.length === 0) return;
    await this.#write();
    const values = await this.#source.getMany(keys);
    const copied = await this.#target.getMany(keys);
    for (const [index, key] of keys.entries()) {
      const [value, old] = [values[index], copied[index]];
      if (old !== undefined) this.#sum = removeEntry(this.#sum, checksumOf(old));
      if (value !== undefined) this.#put(key, value);
      else if (old !== undefined) this.#unwritten.push({ type: 'del', key });
    }
    await this.#write();
  }

  #put(key: Buffer, value: Buffer): void {
    this.#unwritten.push({ type: 'put', key, value });
    this.#sum = addEntry(this.#sum, checksumOf(value));
  }

  async #write(): Promise<void> {
    const operations = this.#unwritten;
    this.#unwritten = [];
    await writeBatch(this.#target, operations);
  }
}

/** Deletes the entries of a segment that is sealed: the next one has a copy. */
export async function dropEntries(sealed: Database): Promise<void> {
  for (const space of ENTRY_SPACES) {
    const { gte, lt } = keysOf(space);
    await sealed.clear({ gte, lt });
    await sealed.compactRange(gte, lt);
  }
}

function lineKey(line: SealedSegment): Buffer {
  return numberKey(KEY_SPACE.sealed, line.firstSequence);
}
