import type { Meter } from '../meters/meter.ts';
import {
  chargesNamespaced,
  isNamespaced,
  METER_SCOPES,
  type MeterScope,
  metersAt,
  objectsOf,
} from '../meters/meters.ts';
import type { Observation } from '../timelines/observation.ts';
import type { Observed } from '../timelines/timeline-rules.ts';
import type { Timelines } from '../timelines/timelines.ts';
import type { CollectorSources, WatchedSource } from './scope.ts';

/** Timelines of one kind on this cluster, with what feeds them and whose windows settle them. */
export interface HostTimelines {
  readonly scope: MeterScope;
  readonly object: keyof CollectorSources;
  readonly timelines: Timelines<Observed, unknown>;
  /** Its objects are charged from their beginning to their end. */
  readonly isCharged: boolean;
}

/** All of them. Nothing is metered on Namespaces; they say whose pods are, and are settled with those. */
export function hostTimelines(observation: Observation): readonly HostTimelines[] {
  const metered = METER_SCOPES.flatMap((scope) => {
    const uses = usesIn(scope);
    const seen = observationIn(scope, observation);
    return objectsOf(uses).map((object) => {
      const isCharged = uses.some(({ objects: [charged] }) => charged === object);
      return { scope, object, timelines: seen[object], isCharged };
    });
  });
  const { namespaces: timelines } = observation;
  return [...metered, { scope: 'pods', object: 'namespaces', timelines, isCharged: false }];
}

/** What one scope of this cluster is metered out of. */
export interface HostKind {
  readonly name: MeterScope;
  readonly observation: Observation;
  /** Of objects in namespaces. */
  readonly meters: readonly Meter[];
  readonly namespaced: readonly HostTimelines['timelines'][];
  /** Of nodes, which are everybody's. */
  readonly nodeMeters: readonly Meter[];
  /** What is in no namespace. */
  readonly shared: readonly HostTimelines['timelines'][];
  readonly sources: readonly WatchedSource[];
}

/** The scopes that are metered out of watches on this cluster. */
export function hostKinds(
  observation: Observation,
  sources: CollectorSources,
): readonly HostKind[] {
  const all = hostTimelines(observation);
  return METER_SCOPES.map((name) => {
    const uses = usesIn(name);
    const own = all.filter(({ scope }) => scope === name);
    const inNamespaces = own.filter(isInNamespaces);
    return {
      name,
      observation: observationIn(name, observation),
      meters: uses.filter(chargesNamespaced).map(({ measure }) => measure),
      namespaced: inNamespaces.map(({ timelines }) => timelines),
      nodeMeters: uses.filter((use) => !chargesNamespaced(use)).map(({ measure }) => measure),
      shared: own.filter((each) => !inNamespaces.includes(each)).map(({ timelines }) => timelines),
      sources: objectsOf(uses).flatMap((object) => sources[object]),
    };
  });
}

function usesIn(name: MeterScope) {
  return metersAt('host').filter(({ scope }) => scope === name);
}

/** What the meters of a scope see: GPUs have timelines of pods and nodes of their own. */
function observationIn(scope: MeterScope, observation: Observation): Observation {
  if (scope !== 'gpus') return observation;
  return { ...observation, pods: observation.gpuPods, nodes: observation.gpuNodes };
}

function isInNamespaces({ object }: HostTimelines): boolean {
  return object !== 'namespaces' && isNamespaced(object);
}
