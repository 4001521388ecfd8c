import type { Database } from './database.ts';
import { keysOf, KEY_SPACE } from './keys.ts';

/** 2 MiB; for a segment of a million ids 16 bits each, of which 1 in 400 is asked for in vain. */
const BITS = 2 ** 24;
/** An id's key ends in 128 bits of a hash, of which each of these offsets gives a position. */
const OFFSETS = [1, 5, 9, 13] as const;

/**
 * Says of most ids that a segment cannot hold them, without asking LevelDB: looking for ids that are
 * not there costs more than storing them, and makes LevelDB compact its files over and over. A Bloom
 * filter: it may be wrong about an id that is not there, never about one that is.
 */
export class IdFilter {
  readonly #words = new Uint32Array(BITS / 32);

  add(idKey: Buffer): void {
    for (const offset of OFFSETS) {
      const bit = bitAt(idKey, offset);
      this.#words[bit >>> 5] = (this.#words[bit >>> 5] ?? 0) | (1 << (bit & 31));
    }
  }

  mayHave(idKey: Buffer): boolean {
    return OFFSETS.every((offset) => {
      const bit = bitAt(idKey, offset);
      return ((this.#words[bit >>> 5] ?? 0) & (1 << (bit & 31))) !== 0;
    });
  }
}

function bitAt(key: Buffer, offset: number): number {
  return key.readUInt32LE(offset) % BITS;
}

const READ_AHEAD_BYTES = 256 * 1024;
const CHUNK_IDS = 4_096;

/** The filter of all ids that a segment holds. */
export async function readIdFilter(database: Database): Promise<IdFilter> {
  const filter = new IdFilter();
  const keys = database.keys({
    ...keysOf(KEY_SPACE.id),
    fillCache: false,
    highWaterMarkBytes: READ_AHEAD_BYTES,
  });
  try {
    for (;;) {
      const chunk = await keys.nextv(CHUNK_IDS);
      if (chunk.length === 0) return filter;
      for (const key of chunk) filter.add(key);
    }
  } finally {
    await keys.close();
  }
}
