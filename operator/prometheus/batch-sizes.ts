import type { SharedQuery } from './measure.ts';

interface Learned {
  size: number;
  /** Rounds without a failure since the size was set, and how many of them double it. */
  passes: number;
  patience: number;
  /** The largest that was answered, and the smallest that failed, in this round. */
  worked: number;
  failed: number;
}

/** The server may have got other limits, so twice as many are tried after so many rounds. */
const PATIENCE = 64;

/**
 * How many tenant clusters one query may be about, learned from what the server has answered. After a failure the
 * largest query that was answered is the limit for a while. Where none was, size may not have been the reason: the
 * smallest that failed is the limit, and is doubled as soon as all goes well.
 */
export class BatchSizes {
  readonly #known = new WeakMap<SharedQuery, Learned>();

  /** The most that are asked about at once; infinite until a query was too large. */
  of(shared: SharedQuery): number {
    return this.#learned(shared).size;
  }

  /** A query about so many was answered. */
  worked(shared: SharedQuery, size: number): void {
    const one = this.#learned(shared);
    one.worked = Math.max(one.worked, size);
  }

  /** A query about so many failed. */
  failed(shared: SharedQuery, size: number): void {
    const one = this.#learned(shared);
    one.failed = Math.min(one.failed, size);
  }

  /** A round is over. */
  settle(shared: SharedQuery): void {
    const one = this.#learned(shared);
    if (one.failed < Infinity) {
      one.size = one.worked > 0 ? one.worked : one.failed;
      one.patience = one.worked > 0 ? PATIENCE : 1;
      one.passes = 0;
    } else if (one.size < Infinity) {
      one.passes += 1;
      if (one.passes >= one.patience) {
        one.size *= 2;
        one.passes = 0;
      }
    }
    one.worked = 0;
    one.failed = Infinity;
  }

  #learned(shared: SharedQuery): Learned {
    const none = { size: Infinity, passes: 0, patience: 1, worked: 0, failed: Infinity };
    const found = this.#known.get(shared) ?? none;
    this.#known.set(shared, found);
    return found;
  }
}
