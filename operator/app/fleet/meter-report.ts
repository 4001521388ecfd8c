import type { Role } from '../../settings/settings.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import type { MetricDefinition, CustomMetric } from '../../model/catalog.ts';
import { errorText } from '../../model/error-text.ts';
import { isRecord } from '../../model/is-record.ts';
import { parseJson } from '../../model/parse-json.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { FailedTenantApi } from '../../tenant-api/tenant-api.ts';

/**
 * Facts that only the meter of a stream knows. The meter writes them every few seconds beside the
 * events, for a process elsewhere that shows or feeds the stream
 * (docs/how-to/fleet.md#what-a-meter-reports). Lists have their first hundred items. Times are
 * milliseconds since the epoch.
 */
export interface MeterReport extends MeterFacts {
  /** Grows with every report of a process. If it stands still, the meter is gone. */
  readonly beat: number;
  /** Changes with every change of tenants or tenant clusters. */
  readonly revision: string;
}

/** A meter's report about itself. */
export interface MeterFacts {
  readonly version: string;
  readonly role: Role;
  readonly ready: boolean;
  /** Reasons why it is not ready; empty if it is. */
  readonly waitsFor: readonly string[];
  readonly windowMs: number;
  /**
   * BillingDestinations of its own cluster, which the meter feeds itself. A hub leaves these names
   * to it. Absent in older releases.
   */
  readonly ownDestinations?: readonly string[];
  readonly tenants: number;
  readonly tenantClusters: number;
  /** Its own metrics: CUSTOM_METRICS, and the metrics that it queries from Prometheus. */
  readonly customMetrics: readonly CustomMetric[];
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

/** Most items of every list in a report. */
export const MOST_ITEMS = 100;

type Records = Pick<Ledger, 'record' | 'records'>;

const REPORT_EVERY_MS = 5_000;

/**
 * Writes the report of a stream's meter every five seconds until the signal is aborted. A failed
 * write is made up with the next report.
 */
export async function reportMeter(
  options: {
    readonly ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
    readonly report: () => MeterFacts;
    /** Undefined before tenant clusters are known. */
    readonly clusters: () => readonly TenantCluster[] | undefined;
    /** Grows with every discovery pass that may have changed tenants. */
    readonly discoveryPasses: () => number;
    /** Accepts departures of tenants, which a hub then reads. Called before each report. */
    readonly acceptDepartures?: (() => Promise<void>) | undefined;
    readonly clock: Clock;
    readonly logger: Logger;
  },
  signal: AbortSignal,
): Promise<void> {
  const { ledger, clock, logger } = options;
  const startedAt = clock.now();
  let beat = 0;
  let stored: ReadonlyMap<string, string> | undefined;
  /** Returns why nothing was written, or undefined. */
  const write = async (): Promise<string | undefined> => {
    await options.acceptDepartures?.();
    stored ??= await readClusterTexts(ledger);
    const clusters = options.clusters();
    const revision = `${startedAt}/${options.discoveryPasses()}`;
    const report: MeterReport = { ...options.report(), beat: beat + 1, revision };
    const outcome = await ledger.writeRecords([
      ...(clusters === undefined ? [] : clusterChanges(stored, clusters)),
      { key: REPORT_KEY, value: JSON.stringify({ v: 1, report }) },
    ]);
    if (outcome.kind === 'failed') return outcome.message;
    beat += 1;
    if (clusters !== undefined) {
      stored = new Map(clusters.map((cluster) => [cluster.id, JSON.stringify(cluster)]));
    }
    return undefined;
  };
  let logged = '';
  while (!signal.aborted) {
    const problem = await write().catch(errorText);
    if (problem !== undefined && problem !== logged) logger.warn(`[fleet] ${problem}`);
    logged = problem ?? '';
    await clock.sleep(REPORT_EVERY_MS, signal).catch(() => undefined);
  }
}

/** The newest report; undefined if no meter has written a report in a known form. */
export async function readReport(records: Records): Promise<MeterReport | undefined> {
  const stored = parseJson((await records.record(REPORT_KEY)) ?? '');
  if (!isRecord(stored) || stored['v'] !== 1) return undefined;
  return isReport(stored['report']) ? stored['report'] : undefined;
}

/** Changes from the recorded tenant clusters to the current ones, by id. */
function clusterChanges(
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

/** Recorded tenant clusters as text, by id. */
async function readClusterTexts(records: Records): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  for await (const [key, value] of records.records(CLUSTER_PREFIX)) {
    texts.set(key.slice(CLUSTER_PREFIX.length), value);
  }
  return texts;
}

export async function readClusters(records: Records): Promise<readonly TenantCluster[]> {
  const texts = await readClusterTexts(records);
  return [...texts.values()].flatMap((text) => {
    const cluster = parseJson(text);
    return isCluster(cluster) ? [cluster] : [];
  });
}

/**
 * Returns whether a value is a report. A few fields suffice: only this module writes these keys, so
 * any other value is a damaged record.
 */
function isReport(value: unknown): value is MeterReport {
  return (
    isRecord(value) && typeof value['version'] === 'string' && typeof value['beat'] === 'number'
  );
}

function isCluster(value: unknown): value is TenantCluster {
  return isRecord(value) && typeof value['id'] === 'string' && typeof value['tenant'] === 'string';
}
