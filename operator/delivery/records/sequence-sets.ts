interface Chunk {
  readonly bits: Uint8Array;
  count: number;
}

const CHUNK_NUMBERS = 4_096;

/** A set of sequence numbers in bitmaps of 4,096: about one bit for each number in its range. */
export class SequenceSet {
  readonly #chunks = new Map<number, Chunk>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(sequence: number): boolean {
    const bit = sequence % CHUNK_NUMBERS;
    return (((this.#chunkOf(sequence)?.bits[bit >>> 3] ?? 0) >>> (bit & 7)) & 1) === 1;
  }

  /** Returns whether it was missing before. */
  add(sequence: number): boolean {
    if (this.has(sequence)) return false;
    const chunk = this.#chunkOf(sequence) ?? { bits: new Uint8Array(CHUNK_NUMBERS / 8), count: 0 };
    this.#chunks.set(Math.floor(sequence / CHUNK_NUMBERS), chunk);
    this.#flip(chunk, sequence, 1);
    return true;
  }

  /** Returns whether it was present before. */
  delete(sequence: number): boolean {
    const chunk = this.#chunkOf(sequence);
    if (chunk === undefined || !this.has(sequence)) return false;
    this.#flip(chunk, sequence, -1);
    if (chunk.count === 0) this.#chunks.delete(Math.floor(sequence / CHUNK_NUMBERS));
    return true;
  }

  #chunkOf(sequence: number): Chunk | undefined {
    return this.#chunks.get(Math.floor(sequence / CHUNK_NUMBERS));
  }

  #flip(chunk: Chunk, sequence: number, change: 1 | -1): void {
    const bit = sequence % CHUNK_NUMBERS;
    chunk.bits[bit >>> 3] = (chunk.bits[bit >>> 3] ?? 0) ^ (1 << (bit & 7));
    chunk.count += change;
    this.#size += change;
  }
}

/**
 * Sequence numbers that the cursor has passed although the event was never sent: events before the
 * start, events that an operator skipped, and discarded dead letters. Each is `[first, last]`,
 * ascending, without overlaps. Reconciliation calls them `withheld`.
 */
export type UnsentRanges = readonly (readonly [first: number, last: number])[];

export function addUnsent(unsent: UnsentRanges, first: number, last: number): UnsentRanges {
  return first > last ? unsent : merged([...unsent, [first, last]]);
}

/** Removes everything above a sequence number: a cursor that was rewound there passes it again. */
export function unsentUpTo(unsent: UnsentRanges, last: number): UnsentRanges {
  return unsent.flatMap(([from, to]) => (from > last ? [] : [[from, Math.min(to, last)] as const]));
}

/** Removes ranges that the ledger has deleted. `lowWater` is the number before the oldest event. */
export function unsentAfter(unsent: UnsentRanges, lowWater: number): UnsentRanges {
  return unsent.filter(([, to]) => to > lowWater);
}

/** Adds single numbers. */
export function withSequences(unsent: UnsentRanges, sequences: readonly number[]): UnsentRanges {
  if (sequences.length === 0) return unsent;
  return merged([...unsent, ...sequences.map((sequence) => [sequence, sequence] as const)]);
}

function merged(ranges: UnsentRanges): UnsentRanges {
  const found: [number, number][] = [];
  for (const [from, to] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const before = found.at(-1);
    if (before === undefined || from > before[1] + 1) found.push([from, to]);
    else before[1] = Math.max(before[1], to);
  }
  return found;
}

export function isUnsent(unsent: UnsentRanges, sequence: number): boolean {
  let [low, high] = [0, unsent.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const [from, to] = unsent[middle] ?? [0, 0];
    if (sequence < from) high = middle - 1;
    else if (sequence > to) low = middle + 1;
    else return true;
  }
  return false;
}
