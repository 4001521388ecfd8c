import type { Database } from './database.ts';
import { keysOf, KEY_SPACE } from './keys.ts';

/** 2 MiB: 16 bits per id for a million ids; 1 in 400 unknown ids is looked up in vain. */
const BITS = 2 ** 24;
/** An id's key ends in 128 bits of a hash; each offset reads one bit position from it. */
const OFFSETS = [1, 5, 9, 13] as const;

/**
 * A Bloom filter that rules out most ids that a segment does not contain, without a LevelDB lookup.
 * Such lookups cost more than storing the ids and make LevelDB compact its files repeatedly. The
 * filter never rules out an id that is stored.
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

/** Builds the filter of all ids of a segment. */
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
