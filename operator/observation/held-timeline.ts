import type { Sighting } from './sighting.ts';
import { currentState, enter, type Timeline } from './timeline.ts';

/** What an object that is held, rather than run, says of itself in one version. */
export interface Holding<S> {
  /** Undefined while it costs nothing. */
  readonly state: S | undefined;
  /** When the state began, where the API says so. */
  readonly since?: number;
  readonly createdAt: number;
}

/**
 * Follows claims, load balancers, workloads and nodes: the state changes when its change arrives.
 * One that is first seen on a list, with its state already there, is taken to have had it since
 * its creation, for nothing on the object tells a later moment.
 */
export function followHolding<S>(
  timeline: Timeline<S>,
  { state, since, createdAt }: Holding<S>,
  seen: Sighting,
  isSame: (a: S, b: S) => boolean,
): void {
  const current = currentState(timeline);
  if (current === state) return;
  if (current !== undefined && state !== undefined) {
    if (!isSame(current, state)) enter(timeline, state, seen.at);
    return;
  }
  const estimate = seen.first && seen.late ? createdAt : seen.at;
  enter(timeline, state, state === undefined ? seen.at : seen.believe(since ?? estimate));
}
