import type { ObservationReader } from './observation.ts';
import type { Timeline } from './timeline.ts';
import type { TimelineReader } from './timeline-rules.ts';

/** Decides for every visited timeline whether readers see it; may throw to end the visit. */
export type Sees = (timeline: Timeline<unknown>) => boolean;

/** Returns a reader that shows only the timelines for which `sees` is true. */
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

/** Returns an observation that shows only the timelines for which `sees` is true. */
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

/** Returns an observation of the objects in included namespaces, and of all without a namespace. */
export function observationOf(
  observation: ObservationReader,
  includes: (namespace: string) => boolean,
): ObservationReader {
  return seenObservation(observation, ({ namespace }) => namespace === '' || includes(namespace));
}
