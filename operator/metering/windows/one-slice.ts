import type { MeterInput } from '../meters/meter.ts';
import type { ScopeState } from './scope.ts';
import { PRIVATE_OBJECTS } from './tenant-scopes.ts';

/** Some 60 ms of work on a slow machine. */
const OBJECTS_PER_SLICE = 1_000;

/**
 * Those whose window is closed in one turn: all of this cluster, and of the tenant clusters with own nodes
 * as many as {@link firstForSlice} takes. Those that have failed before come last.
 */
export function forOneSlice(
  members: readonly ScopeState[],
  attempts: (name: string) => number,
): readonly ScopeState[] {
  const host = members.filter(({ scope }) => scope.privateNodes !== true);
  const own = members.filter(({ scope }) => scope.privateNodes === true);
  own.sort((a, b) => attempts(a.scope.name) - attempts(b.scope.name));
  return [...host, ...firstForSlice(own)];
}

/** The first of these, as many as do not take long together; one at the least. */
export function firstForSlice<T extends Pick<ScopeState, 'scope'>>(waiting: readonly T[]): T[] {
  let objects = 0;
  const rest = waiting.findIndex(({ scope }, index) => {
    objects += objectsOf(scope.observation);
    return index > 0 && objects > OBJECTS_PER_SLICE;
  });
  return rest === -1 ? [...waiting] : waiting.slice(0, rest);
}

/** How many objects a tenant cluster with private nodes has that are looked at. */
export function objectsOf(observation: MeterInput['observation']): number {
  return PRIVATE_OBJECTS.reduce((sum, object) => sum + observation[object].size, 0);
}
