import type { PrometheusSettings } from '../settings/settings.ts';
import { namespacesOf } from '../discovery/tenant-cluster.ts';
import { CONTROL_PLANE_ENDING, egressOf } from './built-in-queries.ts';
import type { Answer, MeasuredCluster, SharedQuery } from './measure.ts';
import { anyOf, oneOf, rangeOf } from './plan-query.ts';
import {
  PLATFORM_LABELS,
  platformKey,
  platformKeyOf,
  platformMatchers,
} from './platform-labels.ts';
import { numberOf, type Sample, type Vector } from './query-answer.ts';

/** The built-in query for egress, asked of many tenant clusters at once (docs/explanation/prometheus.md#one-query-for-all). */
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
 * One sum for each namespace. Where a control plane that is not charged may be, the pods that may be its own
 * come one by one: those that are called like any of the tenant clusters, so that the name of the right one decides.
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
    const parts = hiding.map(({ namespace }) => namespace);
    const controlPlanes = `(${anyOf(hiding.map(({ name }) => name))})${CONTROL_PLANE_ENDING}`;
    const complete = subjects.flatMap(completeNamespaces);
    return [
      ...sum(complete, 'pod!=""'),
      ...sum(parts, `pod!="",pod!~"${controlPlanes}"`),
      ...sum(parts, `pod=~"${controlPlanes}"`, 'pod'),
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

/** Namespaces in which every pod is charged; a control plane is in the first alone. */
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

/** One sum for each tenant cluster, of the rows that are its own. */
function splitSums(
  { samples }: Vector,
  subjects: readonly MeasuredCluster[],
  ownersOf: (labels: Sample['labels']) => readonly MeasuredCluster[],
): readonly Answer[] | string {
  const parts = new Map<MeasuredCluster, string[]>(subjects.map((subject) => [subject, []]));
  const seen = new Set<string>();
  for (const { labels, value } of samples) {
    const { namespace = '', pod = '' } = labels;
    const key = JSON.stringify([namespace, pod, platformKey(labels)]);
    if (seen.has(key)) return 'the answer about all has several rows about the same pods';
    seen.add(key);
    for (const owner of ownersOf(labels)) parts.get(owner)?.push(value);
  }
  return subjects.map((subject) => {
    const value = sumOf(parts.get(subject) ?? []);
    const sum = value === undefined ? [] : [{ labels: {}, value }];
    return { rows: { kind: 'vector', samples: sum, malformed: [] } };
  });
}

/** As the server adds; a part alone keeps its text. */
function sumOf(parts: readonly string[]): string | undefined {
  if (parts.length <= 1) return parts[0];
  return String(parts.reduce((sum, part) => sum + numberOf(part), 0));
}
