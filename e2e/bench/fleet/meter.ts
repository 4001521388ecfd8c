import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import { type MeterFacts, reportMeter } from '../../../operator/app/fleet/meter-report.ts';
import { openPostgresLedger } from '../../../operator/ledger/postgres/open-postgres-ledger.ts';
import { silentLogger } from '../../../operator/ledger/testing/level-ledger.ts';
import { COLLECTOR_METRICS } from '../../../operator/model/catalog.ts';
import { parseDecimal } from '../../../operator/model/decimal.ts';
import { deriveEventId } from '../../../operator/model/event-id.ts';
import {
  type EventIdentity,
  SCHEMA_VERSION,
  type UsageEvent,
} from '../../../operator/model/event.ts';
import { formatInstant } from '../../../operator/model/window.ts';
import { systemClock } from '../../../operator/telemetry/system-clock.ts';

export interface MeterPlan {
  readonly database: LedgerDatabase;
  /** CLUSTER_NAME and REGION. */
  readonly source: string;
  readonly tenants: number;
  readonly metrics: number;
  /** Decides on the quantities. */
  readonly seed: number;
}

/** What the meter of a cluster does to the database, without a cluster. */
export interface BenchMeter {
  readonly source: string;
  /** Makes the events of a window that ends then, to be appended. */
  prepare(windowEnd: number): void;
  /** Appends what was prepared as one durable batch, as the closing of a window does; resolves when it is acknowledged. */
  close(): Promise<void>;
  stop(): Promise<void>;
}

export const WINDOW_MS = 60_000;
const RETRY_MS = 250;
const RETENTION_MS = 7 * 86_400_000;

/** Leads its stream, knows its tenants and tells of itself every five seconds. */
export async function startBenchMeter(plan: MeterPlan): Promise<BenchMeter> {
  const { database, source, tenants } = plan;
  const opened = await openPostgresLedger({
    database,
    durability: 'storage',
    source,
    region: source,
    retentionMs: RETENTION_MS,
    clock: systemClock,
    logger: silentLogger,
  });
  if (opened.kind === 'failed') throw new Error(opened.message);
  const { ledger } = opened;
  await ledger.writeRecords(
    Array.from({ length: tenants }, (_, index) => {
      const id = tenantOf(source, index);
      const tenant = { id, displayName: id, region: source, clusters: [id], createdAt: 0 };
      const value = JSON.stringify({ tenant, presence: { kind: 'present' } });
      return { key: `discovery/tenant/${id}`, value };
    }),
  );
  const stopping = new AbortController();
  const { signal } = stopping;
  const working = reportMeter(
    {
      ledger,
      report: () => reportOf(tenants),
      clusters: () => [],
      discoveryPasses: () => 1,
      clock: systemClock,
      logger: silentLogger,
    },
    signal,
  );
  let prepared: readonly UsageEvent[] = [];
  return {
    source,
    prepare: (windowEnd) => {
      prepared = windowOf(plan, windowEnd);
    },
    close: async () => {
      const events = prepared;
      prepared = [];
      for (;;) {
        const outcome = await ledger.append({ events });
        if (outcome.kind === 'appended') return;
        // As the closing of windows does; what is stored already counts as such.
        if (outcome.cause !== 'retryable') throw new Error(outcome.message);
        await systemClock.sleep(RETRY_MS, signal);
      }
    },
    stop: async () => {
      stopping.abort();
      await working;
      await ledger.close();
    },
  };
}

function reportOf(tenants: number): MeterFacts {
  return {
    version: 'bench',
    role: 'meter',
    ready: true,
    waitsFor: [],
    windowMs: WINDOW_MS,
    ownDestinations: [],
    tenants,
    tenantClusters: tenants,
    customMetrics: [],
    measuredMetrics: [],
    gaps: 0,
    failedTenantApis: { total: 0, items: [] },
    withoutKubeconfig: { total: 0, items: [] },
    unattributed: { total: 0, items: [], gpuSeconds: 0, gpuObjects: 0 },
    problems: [],
  };
}

function tenantOf(source: string, index: number): string {
  return `tenant-vcluster-${source}-team-${index}-main`;
}

/** An event of each metric for each tenant cluster. */
function windowOf({ source, tenants, metrics, seed }: MeterPlan, windowEnd: number): UsageEvent[] {
  const window_start = formatInstant(windowEnd - WINDOW_MS);
  const window_end = formatInstant(windowEnd);
  const recorded_at = formatInstant(windowEnd + 1_000);
  const codes = COLLECTOR_METRICS.slice(0, metrics);
  return Array.from({ length: tenants }, (_, index) => {
    const tenant = tenantOf(source, index);
    return codes.map(({ code, unit }, metric): UsageEvent => {
      const spread = windowEnd / 1_000 + index * 104_729 + metric * 7_919 + seed * 15_485_863;
      const digits = ((spread % 999_983) + 1) / 1e6;
      const quantity = parseDecimal(digits.toFixed(6));
      if (quantity === undefined) throw new RangeError(`quantity: not a decimal: "${digits}"`);
      const identity: EventIdentity = {
        tenant,
        metric: code,
        window_start,
        window_end,
        region: source,
        project: `project-${index % 17}`,
        resource_id: tenant,
        dimensions: {
          billing_mode: 'shared',
          capacity_type: 'on-demand',
          tenant_class: 'enterprise',
          tenant_cluster: tenant,
        },
      };
      return {
        schema_version: SCHEMA_VERSION,
        id: deriveEventId(identity),
        ...identity,
        quantity,
        unit,
        recorded_at,
        properties: { basis: 'usage' },
        source: 'collector',
      };
    });
  }).flat();
}
