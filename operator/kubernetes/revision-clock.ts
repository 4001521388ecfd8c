import { isRecord } from '../model/is-record.ts';
import { metadataOf } from './resource.ts';
import type { Bracket, RawObject } from './source.ts';

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
    const until = this.#latest[firstBeyond(this.#latest, number)]?.at ?? Infinity;
    // Dates are of whole seconds, and of several clocks.
    return { from, until: Math.max(from, until) };
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
  let [low, high] = [0, bounds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const bound = bounds[middle];
    if (bound !== undefined && bound.version < version) low = middle + 1;
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

/** Dates are cut to whole seconds, and the API server takes a moment to store what it has dated. */
const WRITING_MS = 2_000;

/**
 * When the API server says that a version of an object was written: no earlier than any of the dates
 * that it has put on it itself. How long after is known of a creation only. What kubelets
 * and controllers say adds nothing: the write that brings it is dated as well, and by a better clock.
 */
export function datesOf(object: RawObject, added: boolean): Partial<Bracket> {
  const from = newestDateOf(object);
  if (from === undefined) return {};
  const created = timeOf(metadataOf(object)['creationTimestamp']);
  const isNew = added && created !== undefined && from - created < WRITING_MS;
  return isNew ? { from, until: created + WRITING_MS } : { from };
}

/** The newest date that the API server has put on an object. */
export function newestDateOf(object: RawObject): number | undefined {
  const created = timeOf(metadataOf(object)['creationTimestamp']);
  const written = lastWriteOf(object);
  return created === undefined || written === undefined
    ? (created ?? written)
    : Math.max(created, written);
}

/**
 * When the API server says that an object was written last. Undefined where somebody has emptied its managedFields:
 * no later write is dated then (https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields).
 */
export function lastWriteOf(object: RawObject): number | undefined {
  const fields = metadataOf(object)['managedFields'];
  return (Array.isArray(fields) ? (fields as unknown[]) : [])
    .map((field) => (isRecord(field) ? timeOf(field['time']) : undefined))
    .filter((date) => date !== undefined)
    .reduce<number | undefined>((a, b) => (a === undefined ? b : Math.max(a, b)), undefined);
}

/** Milliseconds since the epoch, of an RFC 3339 text. */
export function timeOf(value: unknown): number | undefined {
  const time = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isFinite(time) ? time : undefined;
}
