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

/** Timelines of one kind on this cluster, with their source and the scope that settles them. */
export interface HostTimelines {
  readonly scope: MeterScope;
  readonly object: keyof CollectorSources;
  readonly timelines: Timelines<Observed, unknown>;
  /** Its objects are charged from creation to deletion. */
  readonly isCharged: boolean;
}

/** All timelines of this cluster. Namespaces only show whose pods are; they settle together. */
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

/** What one scope of this cluster is measured from. */
export interface HostKind {
  readonly name: MeterScope;
  readonly observation: Observation;
  /** Meters of namespaced objects. */
  readonly meters: readonly Meter[];
  readonly namespaced: readonly HostTimelines['timelines'][];
  /** Meters of nodes, which belong to no namespace. */
  readonly nodeMeters: readonly Meter[];
  /** Timelines of objects without a namespace. */
  readonly shared: readonly HostTimelines['timelines'][];
  readonly sources: readonly WatchedSource[];
}

/** The scopes that are measured from watches on this cluster. */
export function hostKinds(
  observation: Observation,
  sources: CollectorSources,
): readonly HostKind[] {
  const all = hostTimelines(observation);
  return METER_SCOPES.map((name) => {
    const uses = usesIn(name);
    const ofScope = all.filter(({ scope }) => scope === name);
    const inNamespaces = ofScope.filter(isInNamespaces);
    return {
      name,
      observation: observationIn(name, observation),
      meters: uses.filter(chargesNamespaced).map(({ measure }) => measure),
      namespaced: inNamespaces.map(({ timelines }) => timelines),
      nodeMeters: uses.filter((use) => !chargesNamespaced(use)).map(({ measure }) => measure),
      shared: ofScope
        .filter((each) => !inNamespaces.includes(each))
        .map(({ timelines }) => timelines),
      sources: objectsOf(uses).flatMap((object) => sources[object]),
    };
  });
}

function usesIn(name: MeterScope) {
  return metersAt('host').filter(({ scope }) => scope === name);
}

/** What the meters of a scope read. GPU meters have separate timelines of pods and nodes. */
function observationIn(scope: MeterScope, observation: Observation): Observation {
  if (scope !== 'gpus') return observation;
  return { ...observation, pods: observation.gpuPods, nodes: observation.gpuNodes };
}

function isInNamespaces({ object }: HostTimelines): boolean {
  return object !== 'namespaces' && isNamespaced(object);
}
