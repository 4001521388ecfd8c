import type { SharedQuery } from './measure.ts';

interface Learned {
  size: number;
  /** Passes without a failure since the size was set. After `patience` of them it doubles. */
  passes: number;
  patience: number;
  /** Largest batch that was answered in this pass, and smallest that failed. */
  worked: number;
  failed: number;
}

/** The server's limits may have changed, so the size doubles after this many passes. */
const PATIENCE = 64;

/**
 * How many tenant clusters one query may cover, learned from the server's answers. After a failure,
 * the limit is the largest query that was answered. If none was, size may not be the cause: the
 * limit is the smallest query that failed, and doubles after the next pass without a failure.
 */
export class BatchSizes {
  readonly #known = new WeakMap<SharedQuery, Learned>();

  /** Most tenant clusters in one query; infinite until a query was too large. */
  of(shared: SharedQuery): number {
    return this.#learned(shared).size;
  }

  /** Notes an answered query about so many. */
  worked(shared: SharedQuery, size: number): void {
    const one = this.#learned(shared);
    one.worked = Math.max(one.worked, size);
  }

  /** Notes a failed query about so many. */
  failed(shared: SharedQuery, size: number): void {
    const one = this.#learned(shared);
    one.failed = Math.min(one.failed, size);
  }

  /** Ends a pass. */
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
