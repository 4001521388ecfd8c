import type { PrometheusSettings } from '../settings/settings.ts';
import { namespacesOf } from '../discovery/tenant-cluster.ts';
import { utilizationSeries } from './built-in-queries.ts';
import type { QueryResult, MeasuredCluster, SharedQuery } from './measure.ts';
import { isOnHost, oneOf, rangeOf } from './plan-query.ts';
import {
  PLATFORM_LABELS,
  platformKey,
  platformKeyOf,
  platformMatchers,
} from './platform-labels.ts';
import { numberOf, type Sample, type Vector } from './query-answer.ts';

/**
 * The built-in query for utilisation and device count, combined for many tenant clusters
 * (docs/explanation/prometheus.md#one-query-for-all). It returns a row for each GPU and instance.
 * The averages are computed here, because two labels may name the same tenant cluster.
 */
export function sharedUtilization(preset: PrometheusSettings['preset']): SharedQuery {
  return preset === 'vcluster-platform' ? BY_INSTANCE : BY_LABELS;
}

const BY_INSTANCE: SharedQuery = {
  promql: (subjects, window) =>
    devicesOf([platformMatchers(subjects)], PLATFORM_LABELS, rangeOf(window)),
  split: (rows, subjects) => {
    const byKey = Map.groupBy(subjects, platformKeyOf);
    return splitDevices(rows, subjects, (labels) => byKey.get(platformKey(labels)) ?? []);
  },
};

const BY_LABELS: SharedQuery = {
  promql: (subjects, window) => {
    const namespaces = subjects.flatMap(hostNamespacesOf);
    const names = subjects.filter(({ uniqueName }) => uniqueName).map(nameOf);
    const ofHost = [
      `${oneOf('namespace', namespaces)},exported_namespace=""`,
      oneOf('exported_namespace', namespaces),
    ];
    const selections = [
      ...(namespaces.length === 0 ? [] : ofHost),
      ...(names.length === 0 ? [] : [oneOf('vcluster', names)]),
    ];
    return devicesOf(selections, ['namespace', 'exported_namespace', 'vcluster'], rangeOf(window));
  },
  split: (rows, subjects) => {
    const owners = new Map(
      subjects.flatMap((subject) =>
        hostNamespacesOf(subject).map((namespace) => [namespace, subject] as const),
      ),
    );
    const named = subjects.filter(({ uniqueName }) => uniqueName);
    const byName = Map.groupBy(named, nameOf);
    return splitDevices(rows, subjects, ({ exported_namespace, namespace, vcluster }) => {
      const ofHost = owners.get(exported_namespace || (namespace ?? ''));
      return [...(ofHost === undefined ? [] : [ofHost]), ...(byName.get(vcluster ?? '') ?? [])];
    });
  },
};

function hostNamespacesOf({ cluster }: MeasuredCluster): readonly string[] {
  return isOnHost(cluster) ? namespacesOf(cluster) : [];
}

function nameOf({ cluster }: MeasuredCluster): string {
  return cluster.name;
}

/** Label of the rows from the profiling field, which replace a GPU's missing utilisation. */
const FIELD = 'meterfeed_field';

/** `scope` are the labels that identify a row's owner. */
function devicesOf(
  selections: readonly string[],
  scope: readonly string[],
  window: string,
): string {
  const { ofGpus, ofInstances } = utilizationSeries(selections, window);
  const device = [...scope, 'UUID', 'GPU_I_ID'].join(', ');
  const each = (series: string): string => `max by (${device}, modelName) (${series})`;
  const standIns = `label_replace(100 * ${each(ofInstances)}, "${FIELD}", "engine", "", "")`;
  return `${each(ofGpus)} or on (${device}) ${standIns}`;
}

function splitDevices(
  { samples }: Vector,
  subjects: readonly MeasuredCluster[],
  ownersOf: (labels: Sample['labels']) => readonly MeasuredCluster[],
): readonly QueryResult[] {
  const rows = new Map<MeasuredCluster, Sample[]>(subjects.map((subject) => [subject, []]));
  for (const sample of samples) {
    for (const owner of new Set(ownersOf(sample.labels))) rows.get(owner)?.push(sample);
  }
  return subjects.map((subject) => averagesOf(rows.get(subject) ?? []));
}

/** Average and number of devices by model. The highest value of each device counts. */
function averagesOf(samples: readonly Sample[]): QueryResult {
  const { own = [], standIns = [] } = Object.groupBy(samples, ({ labels }) =>
    labels[FIELD] === undefined ? 'own' : 'standIns',
  );
  const known = new Set(own.map(deviceOf));
  const counted = [...own, ...standIns.filter((sample) => !known.has(deviceOf(sample)))];
  const models = new Map<string, Map<string, number>>();
  for (const sample of counted) {
    const model = sample.labels['modelName'] ?? '';
    const devices = models.get(model) ?? new Map<string, number>();
    models.set(model, devices);
    const device = deviceOf(sample);
    devices.set(device, highest(devices.get(device), numberOf(sample.value)));
  }
  const averages: Sample[] = [];
  const counts: Sample[] = [];
  for (const [model, devices] of models) {
    const labels: Record<string, string> = model === '' ? {} : { modelName: model };
    const sum = [...devices.values()].reduce((total, value) => total + value, 0);
    averages.push({ labels, value: String(sum / devices.size) });
    counts.push({ labels, value: String(devices.size) });
  }
  return { rows: vectorOf(averages), beside: vectorOf(counts) };
}

function deviceOf({ labels }: Sample): string {
  return JSON.stringify([labels['UUID'] ?? '', labels['GPU_I_ID'] ?? '']);
}

/** As on the server: a number wins over NaN. */
function highest(known: number | undefined, value: number): number {
  return known === undefined || Number.isNaN(known) || value > known ? value : known;
}

function vectorOf(samples: readonly Sample[]): Vector {
  return { kind: 'vector', samples, malformed: [] };
}
