import type { PrometheusSettings } from '../settings/settings.ts';
import { namespacesOf } from '../discovery/tenant-cluster.ts';
import { CONTROL_PLANE_ENDING, egressOf } from './built-in-queries.ts';
import type { QueryResult, MeasuredCluster, SharedQuery } from './measure.ts';
import { anyOf, oneOf, rangeOf } from './plan-query.ts';
import {
  PLATFORM_LABELS,
  platformKey,
  platformKeyOf,
  platformMatchers,
} from './platform-labels.ts';
import { numberOf, type Sample, type Vector } from './query-answer.ts';

/**
 * The built-in query for egress, combined for many tenant clusters
 * (docs/explanation/prometheus.md#one-query-for-all).
 */
export function sharedEgress(preset: PrometheusSettings['preset']): SharedQuery {
  return preset === 'vcluster-platform' ? BY_INSTANCE : BY_NAMESPACE;
}

const BY_INSTANCE: SharedQuery = {
  promql: (subjects, window) =>
    egressOf({
      series: platformMatchers(subjects),
      pods: 'pod!=""',
      window: rangeOf(window),
      scope: PLATFORM_LABELS,
      by: PLATFORM_LABELS,
    }),
  split: (rows, subjects) => {
    const byKey = Map.groupBy(subjects, platformKeyOf);
    return splitSums(rows, subjects, (labels) => byKey.get(platformKey(labels)) ?? []);
  },
};

/**
 * Returns one sum for each namespace. Namespaces with a control plane that is not charged are
 * different: pods whose names match a control plane of any tenant cluster come separately. {@link
 * isControlPlane} then decides by the namespace's own tenant cluster.
 */
const BY_NAMESPACE: SharedQuery = {
  promql: (subjects, window) => {
    const sum = (
      namespaces: readonly string[],
      pods: string,
      ...by: readonly string[]
    ): readonly string[] => {
      if (namespaces.length === 0) return [];
      const series = `${oneOf('namespace', namespaces)},exported_namespace=""`;
      return [egressOf({ series, pods, window: rangeOf(window), by: ['namespace', ...by] })];
    };
    const hiding = subjects.filter(hidesControlPlane).map(({ cluster }) => cluster);
    const partial = hiding.map(({ namespace }) => namespace);
    const controlPlanes = `(${anyOf(hiding.map(({ name }) => name))})${CONTROL_PLANE_ENDING}`;
    const complete = subjects.flatMap(completeNamespaces);
    return [
      ...sum(complete, 'pod!=""'),
      ...sum(partial, `pod!="",pod!~"${controlPlanes}"`),
      ...sum(partial, `pod=~"${controlPlanes}"`, 'pod'),
    ].join(' or ');
  },
  split: (rows, subjects) => {
    const owners = new Map(
      subjects.flatMap((subject) =>
        namespacesOf(subject.cluster).map((namespace) => [namespace, subject] as const),
      ),
    );
    return splitSums(rows, subjects, ({ namespace = '', pod = '' }) => {
      const owner = owners.get(namespace);
      return owner === undefined || isControlPlane(namespace, pod, owner) ? [] : [owner];
    });
  },
};

function hidesControlPlane({ cluster }: MeasuredCluster): boolean {
  return !cluster.metering.meterControlPlane;
}

/** Namespaces in which every pod is charged. Only the first namespace has a control plane. */
function completeNamespaces(subject: MeasuredCluster): readonly string[] {
  const namespaces = namespacesOf(subject.cluster);
  return hidesControlPlane(subject) ? namespaces.slice(1) : namespaces;
}

const ENDING = new RegExp(`^(?:${CONTROL_PLANE_ENDING})$`);

function isControlPlane(namespace: string, pod: string, subject: MeasuredCluster): boolean {
  const { cluster } = subject;
  if (!hidesControlPlane(subject) || namespace !== cluster.namespace) return false;
  return pod.startsWith(cluster.name) && ENDING.test(pod.slice(cluster.name.length));
}

/** Adds up the rows of each tenant cluster. */
function splitSums(
  { samples }: Vector,
  subjects: readonly MeasuredCluster[],
  ownersOf: (labels: Sample['labels']) => readonly MeasuredCluster[],
): readonly QueryResult[] | string {
  const parts = new Map<MeasuredCluster, string[]>(subjects.map((subject) => [subject, []]));
  const seen = new Set<string>();
  for (const { labels, value } of samples) {
    const { namespace = '', pod = '' } = labels;
    const key = JSON.stringify([namespace, pod, platformKey(labels)]);
    if (seen.has(key)) return 'the combined answer has several rows about the same pods';
    seen.add(key);
    for (const owner of ownersOf(labels)) parts.get(owner)?.push(value);
  }
  return subjects.map((subject) => {
    const value = sumOf(parts.get(subject) ?? []);
    const sum = value === undefined ? [] : [{ labels: {}, value }];
    return { rows: { kind: 'vector', samples: sum, malformed: [] } };
  });
}

/** Adds as the server does. A single value stays unchanged. */
function sumOf(parts: readonly string[]): string | undefined {
  if (parts.length <= 1) return parts[0];
  return String(parts.reduce((sum, part) => sum + numberOf(part), 0));
}
