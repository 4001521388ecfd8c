import type { Arrival, Bracket } from '../../kubernetes/source.ts';

/**
 * When a version of an object was observed, and which of its own times are trusted. A change
 * without a time happened within the bracket (docs/explanation/gaps.md#changes-that-nobody-saw).
 */
export interface Sighting extends Bracket {
  /** Wall clock at arrival. */
  readonly at: number;
  /** No version of the object was seen before. */
  readonly first: boolean;
  /** A list brought it: its state may be older than its arrival. */
  readonly late: boolean;
  /** Returns an API time, moved into the possible range where it lies outside. */
  trust(time: number): number;
}

/**
 * How far a time may lie before the last version that lacked it and still be trusted. Statuses are
 * written late (a kubelet may lag by many seconds), in full seconds, and by another machine's
 * clock.
 */
export const REPORTING_DELAY_MS = 60_000;

/** The API gives creation times in full seconds, rounded down. */
export const CREATION_STEP_MS = 1_000;

/**
 * Returns the sighting of a version whose change happened within `bracket`. `notBefore` is the
 * arrival of the previous version, or the creation of a new object. Times outside the possible
 * range are moved to its nearest end and counted (docs/explanation/metering.md#times).
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
