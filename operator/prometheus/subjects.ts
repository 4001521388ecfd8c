import { namespacesOf, type TenantCluster } from '../discovery/tenant-cluster.ts';
import type { TenantClusterTimelines } from '../metering/timelines/tenant-cluster-timeline.ts';
import type { Window } from '../model/window.ts';
import type { MeasuredCluster } from './measure.ts';

/** The tenant clusters over time, with the tenant of each. */
export type TenantClusterStates = Pick<TenantClusterTimelines, 'during' | 'current'>;

/**
 * The tenant clusters to query for a window, by id, as of the window's end. Their tenants are those
 * of that time. Queries and the platform's names are those of today, so that a fixed query fills
 * the gaps of a broken one.
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
  const billed = [...last.values()].filter((cluster) => !cluster.excluded);
  const lastFirst = billed.toSorted((a, b) => (a.id < b.id ? 1 : -1));
  const firstClusters = new Map(lastFirst.map(({ tenant, id }) => [tenant, id]));
  return new Map(
    billed.map((cluster) => [
      cluster.id,
      {
        cluster: withTodaysQueries(cluster, today.get(cluster.id)),
        firstClusters,
        sharedNamespace: namespacesOf(cluster).find(
          (namespace) => (inNamespace.get(namespace)?.size ?? 0) > 1,
        ),
        uniqueName: (named.get(cluster.name)?.size ?? 0) <= 1,
      },
    ]),
  );
}

function withTodaysQueries(then: TenantCluster, today: TenantCluster | undefined): TenantCluster {
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
