import { namespacesOf, type TenantCluster } from '../discovery/tenant-cluster.ts';
import type { TenantClusterTimelines } from '../metering/timelines/tenant-cluster-timeline.ts';
import type { Window } from '../model/window.ts';
import type { MeasuredCluster } from './measure.ts';

/** Which tenant clusters there were, and whom each was billed to, from when to when. */
export type TenantClusterStates = Pick<TenantClusterTimelines, 'during' | 'current'>;

/**
 * The tenant clusters to ask about for a window, by id, each as it stood at the window's end.
 * Whom it is billed to is what held then; what to ask, and the platform's name of it, is what holds today,
 * so that a mended query fills what a broken one has missed.
 */
export function subjectsOf(
  history: TenantClusterStates,
  window: Window,
): ReadonlyMap<string, MeasuredCluster> {
  const states = history.during(window.start, window.end).toSorted((a, b) => a.from - b.from);
  const last = new Map(states.map(({ state }) => [state.id, state]));
  const inNamespace = idsBy(states, namespacesOf);
  const named = idsBy(states, ({ name }) => [name]);
  const today = new Map(history.current.map((cluster) => [cluster.id, cluster]));
  return new Map(
    [...last.values()]
      .filter((cluster) => !cluster.excluded)
      .map((cluster) => [
        cluster.id,
        {
          cluster: asRequestedToday(cluster, today.get(cluster.id)),
          sharedNamespace: namespacesOf(cluster).find(
            (namespace) => (inNamespace.get(namespace)?.size ?? 0) > 1,
          ),
          uniqueName: (named.get(cluster.name)?.size ?? 0) <= 1,
        },
      ]),
  );
}

function asRequestedToday(then: TenantCluster, today: TenantCluster | undefined): TenantCluster {
  if (today === undefined) return then;
  return { ...then, metering: today.metering, instance: today.instance ?? then.instance };
}

function idsBy(
  states: ReturnType<TenantClusterStates['during']>,
  keysOf: (cluster: TenantCluster) => readonly string[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const ids = new Map<string, Set<string>>();
  for (const { state } of states) {
    for (const key of keysOf(state)) {
      const known = ids.get(key);
      if (known === undefined) ids.set(key, new Set([state.id]));
      else known.add(state.id);
    }
  }
  return ids;
}
