import type { Arrival, Bracket } from '../../kubernetes/source.ts';

/**
 * When a version of an object was seen, and what its own times may be believed to be. A change that it
 * does not date came about in the bracket (docs/explanation/gaps.md#changes-that-nobody-saw).
 */
export interface Sighting extends Bracket {
  /** Wall clock at arrival. */
  readonly at: number;
  /** No version of the object was seen before. */
  readonly first: boolean;
  /** A relist brought it: what it says may have been so for a while. */
  readonly late: boolean;
  /** A time the API gave, kept between the last version without the change and this arrival. */
  trust(time: number): number;
}

/**
 * Statuses are written after what they report (a kubelet may lag by many seconds), carry whole
 * seconds and come from another machine's clock: a time this much before the last version that
 * knew nothing of it is still believed, a time further back is not.
 */
export const REPORTING_DELAY_MS = 60_000;

/** The API gives the time of creation in whole seconds, rounded down. */
export const CREATION_STEP_MS = 1_000;

/**
 * The sighting of a version that came about in `bracket`. `notBefore` is the arrival of the version before it, or the creation
 * of an object that was not seen before. Times outside of what is possible are moved to the nearest
 * possible one and counted (docs/explanation/metering.md#times).
 */
export function sightingOf(
  arrival: Arrival,
  bracket: Bracket,
  notBefore: number,
  first: boolean,
  countClamped: () => void,
): Sighting {
  return {
    ...bracket,
    at: arrival.at,
    first,
    late: arrival.late,
    trust(time) {
      if (time > arrival.at) {
        countClamped();
        return arrival.at;
      }
      if (time >= notBefore - REPORTING_DELAY_MS) return time;
      countClamped();
      return Math.min(notBefore, arrival.at);
    },
  };
}
