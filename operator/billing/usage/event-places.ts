/** Numbers of events, both ends included. */
export interface SequenceRange {
  readonly first: number;
  readonly last: number;
}

/** So near to each other two events are found by one read, with what is between: that is quicker than another read. */
const ONE_READ = 16;

/**
 * Where in the ledger the events of one tenant in one hour are: how many, and ranges of numbers that they are in, and
 * perhaps others' events as well.
 */
export class EventPlaces {
  #events = 0;
  /** First and last of each range, in turns, ascending: the events of an hour may lie far apart, so that there are many. */
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

  /** Events are added in the order of their numbers. */
  add(sequence: number): void {
    this.#events += 1;
    const last = this.#ends.length - 1;
    if (sequence - (this.#ends[last] ?? Number.NEGATIVE_INFINITY) <= ONE_READ) {
      this.#ends[last] = sequence;
    } else {
      this.#ends.push(sequence, sequence);
    }
  }

  /** Adds what this wrote of events before these, `[]` where there is none, and encodes all. Throws when it is not that. */
  encodeAfter(stored: string): string {
    this.addEncoded(stored);
    return this.encode();
  }

  /** Adds what {@link encode} wrote of events before these. Throws when it is not that. */
  addEncoded(text: string): void {
    const [events = 0, ...steps] = JSON.parse(text) as number[];
    let end = 0;
    const before = steps.map((step) => (end += step));
    const [first = Number.POSITIVE_INFINITY] = this.#ends;
    // The last of those and the first of these are one range where they are near enough.
    const isOne = before.length > 0 && first - end <= ONE_READ;
    this.#ends = isOne
      ? [...before.slice(0, -1), ...this.#ends.slice(1)]
      : [...before, ...this.#ends];
    this.#events += events;
  }

  /** Steps from one end to the next, which are the same in most windows and so take little room. */
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

/** All that is in any of these ranges, once and in order, in ranges of at most `most` numbers. */
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
