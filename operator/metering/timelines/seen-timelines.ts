import type { ObservationReader } from './observation.ts';
import type { TenantClusterTimelines } from './tenant-cluster-timeline.ts';
import type { Timeline } from './timeline.ts';
import type { TimelineReader } from './timeline-rules.ts';

/** Is asked for every timeline that is looked at, whether it is seen; may throw to end that. */
export type Sees = (timeline: Timeline<unknown>) => boolean;

/** The same timelines, of which a part is seen. */
export function seenTimelines<S>(timelines: TimelineReader<S>, sees: Sees): TimelineReader<S> {
  function* each(list: Iterable<Timeline<S>>): Iterable<Timeline<S>> {
    for (const timeline of list) if (sees(timeline)) yield timeline;
  }
  return {
    size: timelines.size,
    find: (object) => {
      const timeline = timelines.find(object);
      return timeline !== undefined && sees(timeline) ? timeline : undefined;
    },
    namespaces: function* () {
      for (const [namespace, list] of timelines.namespaces()) yield [namespace, each(list)];
    },
    inNamespace: (namespace) => each(timelines.inNamespace(namespace)),
    late: () => each(timelines.late()),
  };
}

/** The same observation, of which a part is seen. */
export function seenObservation(observation: ObservationReader, sees: Sees): ObservationReader {
  const seen = <S>(timelines: TimelineReader<S>): TimelineReader<S> =>
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
  observation: ObservationReader,
  includes: (namespace: string) => boolean,
): ObservationReader {
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
