/** A range of sequence numbers, both ends included. */
export interface SequenceRange {
  readonly first: number;
  readonly last: number;
}

/**
 * Two events at most this far apart are read together with the events between them. That is faster
 * than a second read.
 */
const ONE_READ = 16;

/**
 * Where in the ledger the events of one tenant in one hour are: their number, and ranges of
 * sequence numbers that contain them. The ranges may also contain events of other tenants.
 */
export class EventPlaces {
  #events = 0;
  /**
   * The first and last number of each range, alternating and ascending. The events of an hour may
   * be far apart, so there may be many.
   */
  #ends: number[] = [];

  get events(): number {
    return this.#events;
  }

  get size(): number {
    return this.#ends.length / 2;
  }

  ranges(): readonly SequenceRange[] {
    return Array.from({ length: this.size }, (_, index) => {
      const [first = 0, last = 0] = this.#ends.slice(2 * index, 2 * index + 2);
      return { first, last };
    });
  }

  /** Adds an event. Sequence numbers must ascend. */
  add(sequence: number): void {
    this.#events += 1;
    const last = this.#ends.length - 1;
    if (sequence - (this.#ends[last] ?? Number.NEGATIVE_INFINITY) <= ONE_READ) {
      this.#ends[last] = sequence;
    } else {
      this.#ends.push(sequence, sequence);
    }
  }

  /**
   * Prepends an encoded text, `[]` if there is none, and encodes the result. Throws when the text
   * is invalid.
   */
  encodeAfter(stored: string): string {
    this.addEncoded(stored);
    return this.encode();
  }

  /** Prepends the places that {@link encode} wrote. Throws when the text is invalid. */
  addEncoded(text: string): void {
    const [events = 0, ...steps] = JSON.parse(text) as number[];
    let end = 0;
    const before = steps.map((step) => (end += step));
    const [first = Number.POSITIVE_INFINITY] = this.#ends;
    // The last earlier range and the first of these become one if they are close enough.
    const isOne = before.length > 0 && first - end <= ONE_READ;
    this.#ends = isOne
      ? [...before.slice(0, -1), ...this.#ends.slice(1)]
      : [...before, ...this.#ends];
    this.#events += events;
  }

  /**
   * The number of events, then the steps between the ends. Most windows have equal steps, so the
   * text compresses well.
   */
  encode(): string {
    let before = 0;
    const steps = this.#ends.map((end) => {
      const step = end - before;
      before = end;
      return step;
    });
    return JSON.stringify([this.#events, ...steps]);
  }
}

/** All numbers of the ranges, once and in order, in ranges of at most `most` numbers. */
export function mergeRanges(
  ranges: readonly SequenceRange[],
  most: number,
): readonly SequenceRange[] {
  const merged: SequenceRange[] = [];
  let done = 0;
  for (const { first, last } of ranges.toSorted((a, b) => a.first - b.first)) {
    for (let next = Math.max(done + 1, first); next <= last; next = done + 1) {
      done = Math.min(last, next + most - 1);
      merged.push({ first: next, last: done });
    }
  }
  return merged;
}
