import type { CustomMetricSetting, Role } from '../config/settings.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import type { MetricDefinition } from '../model/catalog.ts';
import { isRecord } from '../model/is-record.ts';
import type { FailedTenantApi } from '../tenant-api/tenant-api.ts';

/**
 * What only the meter of a stream knows, as it writes it every few seconds beside the events for whoever shows or feeds
 * the stream elsewhere (docs/fleet.md#what-a-meter-tells). Lists have their first hundred. Times are milliseconds since the epoch.
 */
export interface MeterReport {
  readonly version: string;
  readonly role: Role;
  /** Grows with every report of a process; one that stands still is of a meter that is gone. */
  readonly beat: number;
  /** Another one when tenants or tenant clusters have changed. */
  readonly revision: string;
  readonly ready: boolean;
  /** What it waits for, where it is not ready. */
  readonly waitsFor: readonly string[];
  readonly windowMs: number;
  /** BillingDestinations of its own cluster, which it feeds itself: a hub leaves those names to it. Absent in older releases. */
  readonly ownDestinations?: readonly string[];
  readonly tenants: number;
  readonly tenantClusters: number;
  /** Metrics of its own: CUSTOM_METRICS, and those that it asks Prometheus for. */
  readonly customMetrics: readonly CustomMetricSetting[];
  readonly measuredMetrics: readonly MetricDefinition[];
  readonly gaps: number;
  readonly failedTenantApis: { readonly total: number; readonly items: readonly FailedTenantApi[] };
  readonly withoutKubeconfig: { readonly total: number; readonly items: readonly string[] };
  readonly metricsFailure?: { readonly reason: string; readonly since: number };
  readonly unattributed: {
    readonly total: number;
    readonly items: readonly string[];
    readonly gpuSeconds: number;
    readonly gpuObjects: number;
  };
  readonly problems: readonly string[];
}

const REPORT_KEY = 'fleet/report';
const CLUSTER_PREFIX = 'fleet/cluster/';

/** Of every list in a report. */
export const MOST_ITEMS = 100;

type Records = Pick<Ledger, 'record' | 'records'>;

export function putReport(report: MeterReport): RecordChange {
  return { key: REPORT_KEY, value: JSON.stringify({ v: 1, report }) };
}

/** The newest report; undefined where no meter has written one that this program knows. */
export async function readReport(records: Records): Promise<MeterReport | undefined> {
  const stored = parsed(await records.record(REPORT_KEY));
  return stored?.['v'] === 1 && isReport(stored['report']) ? stored['report'] : undefined;
}

/** The changes that lead from the tenant clusters on record, by id, to those that there are. */
export function clusterChanges(
  stored: ReadonlyMap<string, string>,
  clusters: readonly TenantCluster[],
): readonly RecordChange[] {
  const next = new Map(clusters.map((cluster) => [cluster.id, JSON.stringify(cluster)]));
  const gone = [...stored.keys()].filter((id) => !next.has(id));
  return [
    ...[...next].flatMap(([id, value]) =>
      stored.get(id) === value ? [] : [{ key: CLUSTER_PREFIX + id, value }],
    ),
    ...gone.map((id) => ({ key: CLUSTER_PREFIX + id, value: undefined })),
  ];
}

/** The tenant clusters on record as their texts, by id. */
export async function readClusterTexts(records: Records): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  for await (const [key, value] of records.records(CLUSTER_PREFIX)) {
    texts.set(key.slice(CLUSTER_PREFIX.length), value);
  }
  return texts;
}

export async function readClusters(records: Records): Promise<readonly TenantCluster[]> {
  const texts = await readClusterTexts(records);
  return [...texts.values()].flatMap((text) => {
    const cluster = parsed(text);
    return isCluster(cluster) ? [cluster] : [];
  });
}

function parsed(text: string | undefined): Readonly<Record<string, unknown>> | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Only this module writes under these keys, so a field or two tell a whole record from a damaged one. */
function isReport(value: unknown): value is MeterReport {
  return (
    isRecord(value) && typeof value['version'] === 'string' && typeof value['beat'] === 'number'
  );
}

function isCluster(value: unknown): value is TenantCluster {
  return isRecord(value) && typeof value['id'] === 'string' && typeof value['tenant'] === 'string';
}
