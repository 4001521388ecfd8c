import type { Settings } from '../../../config/settings.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { createMemoryLedger } from '../../../ledger/testing/memory-ledger.ts';
import { deriveEventId } from '../../../model/event-id.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from '../../../model/event.ts';
import { parseDecimal } from '../../../model/decimal.ts';
import { formatInstant } from '../../../model/window.ts';
import { NOW, quietViews, testCluster, testTenant } from '../../testing/test-server.ts';
import type { DestinationStatusView, Views } from '../../views.ts';

const HOUR = 3_600_000;

/** A day of a small GPU cloud, for pictures. */
export interface Showcase {
  readonly ledger: Ledger;
  readonly views: (settings: () => Settings) => Partial<Views>;
}

interface Line {
  readonly tenant: string;
  readonly metric: string;
  readonly unit: string;
  readonly sku?: string;
  /** Quantity in an hour of the day. */
  readonly at: (hour: number) => number;
}

/** Busy by day, less by night. */
const day = (base: number, swing: number, peak: number) => (hour: number) =>
  base + swing * (1 + Math.cos(((hour - peak) / 12) * Math.PI));

const LINES: readonly Line[] = [
  gpus('acme-research', 'NVIDIA-H100-80GB-HBM3', day(6, 5, 14)),
  gpus('acme-research', 'NVIDIA-H100-80GB-HBM3-mig-3g.40gb', day(1, 0.8, 10)),
  gpus('globex', 'NVIDIA-H100-80GB-HBM3', day(8, 1, 3)),
  gpus('initech', 'NVIDIA-A100-SXM4-80GB', day(2, 3, 16)),
  gpus('hooli', 'AMD_Instinct_MI300X_OAM', day(4, 2, 20)),
  gpus('pied-piper', 'NVIDIA-A10G-timeslice-4', day(0.5, 1, 12)),
  ...['acme-research', 'globex', 'initech', 'hooli', 'pied-piper'].flatMap((tenant, index) => [
    line(tenant, 'tenant_cpu_core_hours', 'core-hours', day(20 + index * 9, 12, 14)),
    line(tenant, 'tenant_memory_gb_hours', 'gib-hours', day(90 + index * 31, 20, 14)),
    line(tenant, 'tenant_instance_hours', 'hours', () => 1),
  ]),
];

const TENANTS = [
  ['acme-research', 'Acme Research'],
  ['globex', 'Globex'],
  ['hooli', 'Hooli'],
  ['initech', 'Initech'],
  ['pied-piper', 'Pied Piper'],
] as const;

export async function createShowcase(): Promise<Showcase> {
  const ledger = createMemoryLedger();
  const first = Math.floor(NOW / HOUR) * HOUR - 23 * HOUR;
  const starts = Array.from({ length: 23 }, (_, hour) => first + hour * HOUR);
  const events = starts.flatMap((start) =>
    LINES.map((one) => event(one, start, one.at(new Date(start).getUTCHours()))),
  );
  await ledger.append({ events, windowEnd: NOW - 20_000 });
  return { ledger, views: (settings) => views(settings) };
}

function views(settings: () => Settings): Partial<Views> {
  const quiet = quietViews(settings);
  const destination: DestinationStatusView = {
    name: 'lago',
    type: 'lago',
    ready: true,
    suspended: false,
    bootstrapped: true,
    cursor: 483,
    lagEvents: 0,
    lagSeconds: 0,
    delivered: 483,
    skipped: 0,
    deadLetters: 0,
    parked: 0,
    parkedTenants: [],
    offboarding: 0,
    consecutiveFailures: 0,
    unknownMetrics: [],
    unpriced: [],
    lastSuccessAt: NOW - 12_000,
  };
  return {
    discovery: {
      ...quiet.discovery,
      tenants: () => TENANTS.map(([id, displayName]) => testTenant(id, { displayName })),
      clusters: () => TENANTS.map(([id]) => testCluster(id, settings())),
    },
    destinations: {
      ...quiet.destinations,
      list: () => [destination, { ...destination, name: 'data-lake', type: 'webhook' }],
    },
  };
}

function gpus(tenant: string, sku: string, at: Line['at']): Line {
  return { tenant, metric: 'tenant_gpu_hours', unit: 'gpu-hours', sku, at };
}

function line(tenant: string, metric: string, unit: string, at: Line['at']): Line {
  return { tenant, metric, unit, at };
}

function event({ tenant, metric, unit, sku }: Line, start: number, amount: number): UsageEvent {
  const quantity = parseDecimal(amount.toFixed(9));
  if (quantity === undefined) throw new RangeError(`quantity: not a decimal: ${amount}`);
  const identity: EventIdentity = {
    tenant,
    metric,
    window_start: formatInstant(start),
    window_end: formatInstant(start + HOUR),
    region: 'eu-central-1',
    ...(sku !== undefined && { sku }),
    dimensions: { tenant_cluster: `tenant-${tenant}-main` },
  };
  return {
    schema_version: SCHEMA_VERSION,
    id: deriveEventId(identity),
    ...identity,
    quantity,
    unit,
    recorded_at: formatInstant(start + HOUR + 3000),
    source: 'collector',
  };
}
