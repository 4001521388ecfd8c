import type { Projected } from '../kubernetes/source.ts';
import type { Observation } from './observation.ts';
import type { TenantClusterTimelines } from './tenant-cluster-timeline.ts';
import type { Timeline } from './timeline.ts';
import type { Timelines } from './timelines.ts';

/** Is asked for every timeline that is looked at, whether it is seen; may throw to end that. */
export type Sees = (timeline: Timeline<unknown>) => boolean;

/** The same timelines, of which a part is seen. What changes them goes to them as ever. */
export function seenTimelines<T extends Projected, S>(
  timelines: Timelines<T, S>,
  sees: Sees,
): Timelines<T, S> {
  function* each(list: Iterable<Timeline<S>>): Iterable<Timeline<S>> {
    for (const timeline of list) if (sees(timeline)) yield timeline;
  }
  return {
    kind: timelines.kind,
    size: timelines.size,
    has: (object) => timelines.has(object),
    find: (object) => {
      const timeline = timelines.find(object);
      return timeline !== undefined && sees(timeline) ? timeline : undefined;
    },
    namespaces: function* () {
      for (const [namespace, list] of timelines.namespaces()) yield [namespace, each(list)];
    },
    inNamespace: (namespace) => each(timelines.inNamespace(namespace)),
    late: () => each(timelines.late()),
    upserted: (next, previous, arrival) => timelines.upserted(next, previous, arrival),
    deleted: (last, arrival) => timelines.deleted(last, arrival),
    settle: (end, part) => timelines.settle(end, part),
    setApart: (namespace, settled) => timelines.setApart(namespace, settled),
    rejoin: (namespace) => timelines.rejoin(namespace),
    drain: (limit) => timelines.drain(limit),
    putBack: (drained) => timelines.putBack(drained),
    restore: (restored, settled) => timelines.restore(restored, settled),
    discard: (uids) => timelines.discard(uids),
    forget: () => timelines.forget(),
    refresh: (at) => timelines.refresh(at),
    refreshing: (now) => timelines.refreshing(now),
    listed: (...list) => timelines.listed(...list),
  };
}

/** The same observation, of which a part is seen. */
export function seenObservation(observation: Observation, sees: Sees): Observation {
  const seen = <T extends Projected, S>(timelines: Timelines<T, S>): Timelines<T, S> =>
    seenTimelines(timelines, sees);
  const { tenantClusters, refusedNamespaces, usage } = observation;
  return {
    pods: seen(observation.pods),
    nodes: seen(observation.nodes),
    volumes: seen(observation.volumes),
    loadBalancers: seen(observation.loadBalancers),
    workloads: seen(observation.workloads),
    gpuPods: seen(observation.gpuPods),
    gpuNodes: seen(observation.gpuNodes),
    resourceClaims: seen(observation.resourceClaims),
    resourceSlices: seen(observation.resourceSlices),
    namespaces: seen(observation.namespaces),
    tenantClusters,
    refusedNamespaces,
    usage,
  };
}

/** The same observation with the objects of some namespaces; what is in none is in all of them. */
export function observationOf(
  observation: Observation,
  includes: (namespace: string) => boolean,
): Observation {
  return seenObservation(observation, ({ namespace }) => namespace === '' || includes(namespace));
}

/** The same tenant clusters, of which those of one namespace are walked through. */
export function tenantClustersOf(
  timelines: TenantClusterTimelines,
  namespace: string,
): TenantClusterTimelines {
  return {
    current: timelines.current,
    leaving: timelines.leaving,
    sequence: timelines.sequence,
    version: timelines.version,
    observedAt: timelines.observedAt,
    observe: (clusters, at) => timelines.observe(clusters, at),
    tenancies: (within, from, to) => timelines.tenancies(within, from, to),
    during: (from, to) => timelines.during(from, to, namespace),
    statesOf: (id, from, to) => timelines.statesOf(id, from, to),
    learntAfter: (sequence) => timelines.learntAfter(sequence),
    mappedAfter: (sequence) => timelines.mappedAfter(sequence),
    release: (holdsObjects, at) => timelines.release(holdsObjects, at),
    prune: (horizon) => timelines.prune(horizon),
    snapshot: () => timelines.snapshot(),
    restore: (snapshot, observedAt) => timelines.restore(snapshot, observedAt),
  };
}

/** Namespaces in which anything is. */
export function namespacesOf(observation: Observation): readonly string[] {
  const { pods, volumes, loadBalancers, workloads, resourceClaims } = observation;
  const kinds = [pods, volumes, loadBalancers, workloads, resourceClaims];
  return [...new Set(kinds.flatMap((kind) => [...kind.namespaces()].map(([name]) => name)))];
}
