/** A set of sequence numbers that takes about a bit for each number it spans, however many it holds. */
export interface SequenceSet {
  readonly size: number;
  has(sequence: number): boolean;
  /** Whether it was not there before. */
  add(sequence: number): boolean;
  /** Whether it was there before. */
  delete(sequence: number): boolean;
}

interface Chunk {
  readonly bits: Uint8Array;
  held: number;
}

const CHUNK_NUMBERS = 4_096;

export function createSequenceSet(): SequenceSet {
  const chunks = new Map<number, Chunk>();
  let size = 0;
  const chunkOf = (sequence: number): Chunk | undefined =>
    chunks.get(Math.floor(sequence / CHUNK_NUMBERS));
  const has = (sequence: number): boolean => {
    const bit = sequence % CHUNK_NUMBERS;
    return (((chunkOf(sequence)?.bits[bit >>> 3] ?? 0) >>> (bit & 7)) & 1) === 1;
  };
  const flip = (chunk: Chunk, sequence: number, change: 1 | -1): void => {
    const bit = sequence % CHUNK_NUMBERS;
    chunk.bits[bit >>> 3] = (chunk.bits[bit >>> 3] ?? 0) ^ (1 << (bit & 7));
    chunk.held += change;
    size += change;
  };

  return {
    get size() {
      return size;
    },
    has,
    add: (sequence) => {
      if (has(sequence)) return false;
      const chunk = chunkOf(sequence) ?? { bits: new Uint8Array(CHUNK_NUMBERS / 8), held: 0 };
      chunks.set(Math.floor(sequence / CHUNK_NUMBERS), chunk);
      flip(chunk, sequence, 1);
      return true;
    },
    delete: (sequence) => {
      const chunk = chunkOf(sequence);
      if (chunk === undefined || !has(sequence)) return false;
      flip(chunk, sequence, -1);
      if (chunk.held === 0) chunks.delete(Math.floor(sequence / CHUNK_NUMBERS));
      return true;
    },
  };
}
