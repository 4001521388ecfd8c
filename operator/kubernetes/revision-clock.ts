import { metadataOf } from './resource.ts';
import type { Bracket } from './source.ts';

/**
 * Tells between which moments a resourceVersion was given out. Those of one etcd are ordered in time and
 * are decimal numbers (KEP-5504), so that every dated version bounds the versions after it from below,
 * and those before it from above. It knows nothing of versions of another etcd, and {@link agrees} tells those only
 * that are ahead of its own: whoever asks has to know that they are of this one.
 */
export interface RevisionClock {
  /** A version was given out in this bracket; either end may be absent. Wall clock, milliseconds. */
  observe(version: string, when: Partial<Bracket>): void;
  /** Infinite where nothing is known. */
  bracket(version: string): Bracket;
  /** False where a version that had arrived at `heardAt` would have been given out later: it counts otherwise. */
  agrees(version: string, heardAt: number): boolean;
}

/** A version with the bound that it sets. */
interface Bound {
  readonly version: bigint;
  readonly at: number;
}

/** Bounds that are closer than this say the same. */
const CLOSE_MS = 50;
/** A quarter of an hour in which something is dated all the time; the oldest are forgotten. */
const MOST_BOUNDS = 20_000;
/** Clocks of a cluster differ by less. */
const SKEW_MS = 5_000;

export function createRevisionClock(): RevisionClock {
  return new BoundedClock();
}

class BoundedClock implements RevisionClock {
  /** Both by version, and by time as well. */
  readonly #earliest: Bound[] = [];
  readonly #latest: Bound[] = [];

  observe(version: string, { from, until }: Partial<Bracket>): void {
    const number = numberOf(version);
    if (number === undefined) return;
    if (from !== undefined) this.#after({ version: number, at: from });
    if (until !== undefined) this.#before({ version: number, at: until });
  }

  bracket(version: string): Bracket {
    const number = numberOf(version);
    if (number === undefined) return { from: -Infinity, until: Infinity };
    const from = this.#earliest[firstBeyond(this.#earliest, number + 1n) - 1]?.at ?? -Infinity;
    // What says that it was given out before that is wrong, and says nothing.
    const index = firstIndex(this.#latest, (bound) => bound.version >= number && bound.at >= from);
    return { from, until: this.#latest[index]?.at ?? Infinity };
  }

  agrees(version: string, heardAt: number): boolean {
    return this.bracket(version).from <= heardAt + SKEW_MS;
  }

  /** Versions from this one on were given out at its time or later. */
  #after(bound: Bound): void {
    const bounds = this.#earliest;
    const index = firstBeyond(bounds, bound.version + 1n);
    if ((bounds[index - 1]?.at ?? -Infinity) > bound.at - CLOSE_MS) return;
    let end = index;
    while ((bounds[end]?.at ?? Infinity) <= bound.at) end += 1;
    bounds.splice(index, end - index, bound);
    if (bounds.length > MOST_BOUNDS) bounds.shift();
  }

  /** Versions up to this one were given out at its time or earlier. */
  #before(bound: Bound): void {
    const bounds = this.#latest;
    const index = firstBeyond(bounds, bound.version);
    if ((bounds[index]?.at ?? Infinity) < bound.at + CLOSE_MS) return;
    let begin = index;
    while ((bounds[begin - 1]?.at ?? -Infinity) >= bound.at) begin -= 1;
    bounds.splice(begin, index - begin, bound);
    if (bounds.length > MOST_BOUNDS) bounds.shift();
  }
}

/** Index of the first bound at `version` or beyond. */
function firstBeyond(bounds: readonly Bound[], version: bigint): number {
  return firstIndex(bounds, (bound) => bound.version >= version);
}

/** Index of the first bound of which this holds, as it does of all after it. */
function firstIndex(bounds: readonly Bound[], holds: (bound: Bound) => boolean): number {
  let [low, high] = [0, bounds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const bound = bounds[middle];
    if (bound !== undefined && !holds(bound)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The version of an object, or of the moment that a list shows. */
export function versionOf(object: unknown): bigint | undefined {
  return numberOf(metadataOf(object)['resourceVersion']);
}

/** A resourceVersion as the number that it is in an etcd; undefined where it is none. */
export function numberOf(version: unknown): bigint | undefined {
  return typeof version === 'string' && /^\d{1,20}$/.test(version) ? BigInt(version) : undefined;
}
