import type { MeterInput } from '../meters/meter.ts';
import type { ScopeState } from './scope.ts';
import { PRIVATE_OBJECTS } from './tenant-scopes.ts';

/** About 60 ms of work on a slow machine. */
const OBJECTS_PER_SLICE = 1_000;

/**
 * The scopes whose window is closed in one slice: all of this cluster, and as many tenant clusters
 * with private nodes as {@link firstForSlice} takes. Those that failed before come last.
 */
export function forOneSlice(
  members: readonly ScopeState[],
  attempts: (name: string) => number,
): readonly ScopeState[] {
  const host = members.filter(({ scope }) => scope.privateNodes !== true);
  const ofPrivateNodes = members.filter(({ scope }) => scope.privateNodes === true);
  ofPrivateNodes.sort((a, b) => attempts(a.scope.name) - attempts(b.scope.name));
  return [...host, ...firstForSlice(ofPrivateNodes)];
}

/** The first scopes of a list that are quick to measure together; at least one. */
export function firstForSlice<T extends Pick<ScopeState, 'scope'>>(waiting: readonly T[]): T[] {
  let objects = 0;
  const limit = waiting.findIndex(({ scope }, index) => {
    objects += objectsOf(scope.observation);
    return index > 0 && objects > OBJECTS_PER_SLICE;
  });
  return limit === -1 ? [...waiting] : waiting.slice(0, limit);
}

/** How many metered objects a tenant cluster with private nodes has. */
export function objectsOf(observation: MeterInput['observation']): number {
  return PRIVATE_OBJECTS.reduce((sum, object) => sum + observation[object].size, 0);
}
