import { rm } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { ClassicLevel } from 'classic-level';
import { AFTER_ALL_KEYS, DamagedRollups, type Rollups, type RollupView } from '../rollups.ts';
import type { LevelDatabase } from './database.ts';
import { isLocked } from './failures.ts';

type Texts = LevelDatabase<string, string>;

/** Bytes that an iteration reads ahead. */
const READ_AHEAD_BYTES = 256 * 1024;

/**
 * Sums in a separate LevelDB directory, opened at first use. They are not records of a segment,
 * because every new segment copies those. An unreadable directory is deleted and created again.
 */
export class LevelRollups implements Rollups {
  readonly #directory: string;
  #opened: Promise<Texts> | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async snapshot<T>(work: (view: RollupView) => Promise<T>): Promise<T> {
    const database = await this.#open();
    const snapshot = database.snapshot();
    try {
      return await work(new SnapshotView(database, snapshot));
    } finally {
      await snapshot.close();
    }
  }

  async put(texts: ReadonlyMap<string, string>): Promise<void> {
    const database = await this.#open();
    const operations = [...texts].map(([key, text]) => {
      return { type: 'put' as const, key, value: seal(key, text) };
    });
    try {
      await database.batch(operations, { sync: true });
    } catch (error) {
      // After an error LevelDB continues to acknowledge writes, and then loses them.
      await this.close();
      throw error;
    }
  }

  async drop(from: string, to: string): Promise<void> {
    const database = await this.#open();
    await database.clear({ gte: from, lt: to });
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    const database = await opened?.catch(() => undefined);
    await database?.close();
  }

  #open(): Promise<Texts> {
    this.#opened ??= openTexts(this.#directory).catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    return this.#opened;
  }
}

class SnapshotView implements RollupView {
  readonly #database: Texts;
  readonly #snapshot: ReturnType<Texts['snapshot']>;

  constructor(database: Texts, snapshot: ReturnType<Texts['snapshot']>) {
    this.#database = database;
    this.#snapshot = snapshot;
  }

  async get(keys: readonly string[]): Promise<readonly (string | undefined)[]> {
    const values = await this.#database.getMany([...keys], { snapshot: this.#snapshot });
    return keys.map((key, index) => {
      const value = values[index];
      return value === undefined ? undefined : unseal(key, value);
    });
  }

  async *list(prefix: string): AsyncGenerator<readonly [key: string, text: string]> {
    const range = { ...rangeOf(prefix), highWaterMarkBytes: READ_AHEAD_BYTES };
    const entries = this.#database.iterator({ ...range, snapshot: this.#snapshot });
    for await (const [key, value] of entries) yield [key, unseal(key, value)];
  }

  async first(prefix: string): Promise<string | undefined> {
    const range = { ...rangeOf(prefix), limit: 1, snapshot: this.#snapshot };
    const [key] = await this.#database.keys(range).all();
    return key;
  }
}

function rangeOf(prefix: string): { readonly gte: string; readonly lt: string } {
  return { gte: prefix, lt: prefix + AFTER_ALL_KEYS };
}

async function openTexts(directory: string): Promise<Texts> {
  const open = async (): Promise<Texts> => {
    const database: Texts = new ClassicLevel(directory, { cacheSize: 2 * 1024 * 1024 });
    await database.open();
    return database;
  };
  try {
    return await open();
  } catch (error) {
    if (isLocked(error)) throw error;
    await rm(directory, { recursive: true, force: true });
    return open();
  }
}

/** Adds a checksum over key and value: LevelDB returns flipped bits without an error. */
function seal(key: string, text: string): string {
  return `${checksum(key, text)} ${text}`;
}

function unseal(key: string, value: string): string {
  const text = value.slice(9);
  if (value.slice(0, 8) === checksum(key, text)) return text;
  throw new DamagedRollups(`damaged: usage sums: "${key}"`);
}

function checksum(key: string, text: string): string {
  return crc32(text, crc32(key)).toString(16).padStart(8, '0');
}
