import type { Settings } from '../../../settings/settings.ts';
import type { Explanation } from '../../../metering/meters/explanation.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { createMemoryLedger } from '../../../ledger/testing/memory-ledger.ts';
import { deriveEventId } from '../../../model/event-id.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from '../../../model/event.ts';
import { parseDecimal } from '../../../model/decimal.ts';
import { formatInstant } from '../../../model/window.ts';
import type { ReconcileOutcome, ReconcileQuery } from '../../../delivery/operations/reconcile.ts';
import { UsageSums } from '../../../billing/usage/usage-sums.ts';
import { gpuShare, gpuWriter } from '../../testing/gpus.ts';
import { NOW, quietViews, testCluster, testTenant } from '../../testing/test-server.ts';
import type {
  DeadLetter,
  DestinationStatusView,
  Gap,
  Views,
  WindowReportView,
} from '../../views.ts';

const HOUR = 3_600_000;

/** Seven weeks of a small GPU cloud, for pictures and for questions about a month. */
export interface Showcase {
  readonly ledger: Ledger;
  readonly views: (settings: () => Settings) => Partial<Views>;
}

interface Line {
  readonly tenant: string;
  readonly metric: string;
  readonly unit: string;
  readonly sku?: string;
  readonly dimensions?: Readonly<Record<string, string>>;
  /** Quantity in an hour of the day. */
  readonly at: (hour: number) => number;
}

/** Busy by day, less by night. */
const day = (base: number, swing: number, peak: number) => (hour: number) =>
  base + swing * (1 + Math.cos(((hour - peak) / 12) * Math.PI));

/** The id of a tenant's only tenant cluster. */
function clusterOf(tenant: string): string {
  return `tenant-${tenant}-main`;
}

const UPTIME = line('globex', 'tenant_instance_hours', 'hours', () => 1);

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
  ...tokens('globex', 'llama-3.3-70b', day(700_000, 400_000, 15)),
  ...tokens('globex', 'qwen3-235b', day(90_000, 120_000, 9)),
  ...tokens('acme-research', 'llama-3.3-70b', day(3_000_000, 500_000, 20)),
];

const TENANTS = [
  ['acme-research', 'Acme Research'],
  ['globex', 'Globex'],
  ['hooli', 'Hooli'],
  ['initech', 'Initech'],
  ['pied-piper', 'Pied Piper'],
] as const;

/** When measuring began there. */
export const SHOWCASE_BEGAN = Date.UTC(2026, 9, 3, 8);

/**
 * Nothing of CPU and memory was measured here, of all tenants; and nothing of one tenant cluster.
 */
const OUTAGE = { from: Date.UTC(2026, 10, 20, 21), to: Date.UTC(2026, 10, 20, 23) };
const GAPS: readonly Gap[] = [
  { source: 'metrics', scope: '*', ...OUTAGE, reason: 'HTTP 503: the server is shutting down' },
  { source: 'gpus', scope: 'gpus', ...OUTAGE, reason: 'watch of resourceslices: HTTP 503' },
  ...[1, 2, 3].map((hour) => ({
    source: 'tenant-api',
    scope: clusterOf('initech'),
    from: NOW - (hour * 3 + 2) * HOUR,
    to: NOW - hour * 3 * HOUR,
    reason: `nodes: connect ECONNREFUSED 10.0.${hour}.7:6443`,
  })),
  {
    source: 'tenant-api',
    scope: clusterOf('hooli'),
    from: NOW - HOUR,
    to: NOW,
    reason: 'nodes: HTTP 401',
  },
];

/** Grows by a half in the seven weeks. */
function growth(start: number): number {
  return 0.8 + (0.4 * (start - SHOWCASE_BEGAN)) / (NOW - SHOWCASE_BEGAN);
}

/** Tenant clusters that are up do not grow. */
function amountAt({ metric, unit, at }: Line, start: number): number {
  const amount = at(new Date(start).getUTCHours());
  if (unit === 'tokens') return Math.round(growth(start) * amount);
  return metric === UPTIME.metric ? amount : growth(start) * amount;
}

export async function createShowcase(): Promise<Showcase> {
  const ledger = createMemoryLedger();
  const hours = Math.floor((NOW - SHOWCASE_BEGAN) / HOUR);
  const starts = Array.from({ length: hours }, (_, hour) => SHOWCASE_BEGAN + hour * HOUR);
  const events = starts
    .filter((start) => start < OUTAGE.from || start >= OUTAGE.to)
    .flatMap((start) =>
      LINES.map((one) => ({ one, amount: amountAt(one, start) }))
        .filter(({ amount }) => amount > 0)
        .map(({ one, amount }) => event(one, start, amount)),
    );
  await ledger.append({ events, windowEnd: NOW });
  await writeGpus(ledger);
  return { ledger, views: (settings) => views(settings, ledger) };
}

const H100 = 'NVIDIA-H100-80GB-HBM3';
const GPU_DAYS = 8;

/**
 * Hour by hour of the last days: whole nodes of two tenants, one of which was down for a night, and
 * pods of the others.
 */
async function writeGpus(ledger: Ledger): Promise<void> {
  const gpus = gpuWriter(ledger);
  const end = Math.floor(NOW / HOUR) * HOUR;
  for (let start = end - GPU_DAYS * 24 * HOUR; start < end; start += HOUR) {
    const hour = new Date(start).getUTCHours();
    const isNight = start > NOW - 40 * HOUR && start < NOW - 30 * HOUR;
    const held = Math.round(day(3, 4, 14)(hour));
    await gpus.shares(start, [
      gpuShare('acme-research', H100, [16, isNight ? 8 : 16, 16, Math.min(held, 8) + 5]),
      gpuShare('globex', H100, [8, 8, 8, 7]),
      gpuShare(undefined, H100, [8, 8, 0, 0, 32]),
      gpuShare('hooli', 'AMD_Instinct_MI300X_OAM', [8, 8, 8, 6]),
      gpuShare(undefined, 'AMD_Instinct_MI300X_OAM', [0, 0, 0, 0, 8]),
      gpuShare('initech', 'NVIDIA-A100-SXM4-80GB', [held, held, held, held]),
      gpuShare(undefined, 'NVIDIA-A100-SXM4-80GB', [16 - held, 16 - held, 0, 0, 16]),
    ]);
    await gpus.busy(start, 'acme-research', H100, day(20, 30, 14)(hour), 9);
    await gpus.busy(start, 'globex', H100, 91.5, 7);
    await gpus.busy(start, 'initech', 'NVIDIA-A100-SXM4-80GB', 0, 2);
  }
}

function views(settings: () => Settings, ledger: Ledger): Partial<Views> {
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
    planChanges: [],
    unknownMetrics: [],
    unpriced: [],
    lateRefusals: [],
    lastSuccessAt: NOW - 12_000,
  };
  return {
    discovery: {
      ...quiet.discovery,
      tenants: () =>
        TENANTS.map(([id, displayName]) =>
          testTenant(id, { displayName, clusters: [clusterOf(id)] }),
        ),
      clusters: () =>
        TENANTS.map(([id, displayName]) => ({
          ...testCluster(clusterOf(id), settings()),
          tenant: id,
          displayName,
        })),
    },
    metering: { ...quiet.metering, gaps: () => GAPS, windows: () => Iterator.from(WINDOWS) },
    explanations: { find: async (one) => ({ kind: 'found', explanation: explained(one) }) },
    destinations: {
      ...quiet.destinations,
      list: () => [
        destination,
        { ...destination, name: 'data-lake', type: 'webhook', deadLetters: LETTERS.length },
      ],
      operations: {
        ...quiet.destinations.operations,
        deadLetters: async (name) => ({ deadLetters: name === 'data-lake' ? LETTERS : [] }),
        reconcile: (name, query) => reconcile(ledger, name, query),
        predictCorrection: async (name) => ({
          state: name === 'lago' ? 'delivered' : 'waiting',
          takesNegative: true,
        }),
      },
    },
  };
}

/** Hourly windows, one of which was closed late and one of which has gaps. */
const WINDOWS: readonly WindowReportView[] = Array.from({ length: 24 }, (_, back) => {
  const end = Math.floor(NOW / HOUR) * HOUR - back * HOUR;
  const model = (gpuType: string, installed: number, billed: number, downtime = 0) => {
    const idle = installed - billed - downtime;
    const amounts = { installed, billed, idle, downtime, system: 0 };
    return { gpuType, ...amounts, overlap: 0, carried: 0, unaccounted: 0 };
  };
  const models = [
    model('NVIDIA-H100-80GB-HBM3', 115_200, 88_214.25 - 300 * back),
    model('NVIDIA-A100-SXM4-80GB', 57_600, 21_600, 3_600),
    model('AMD_Instinct_MI300X_OAM', 28_800, 28_800),
  ];
  return {
    start: end - HOUR,
    end,
    events: LINES.length,
    gaps: back === 0 ? GAPS.slice(-1) : [],
    details: {
      closedAt: new Date(end + 3_200).toISOString(),
      durationMs: 41,
      scopes: ['pods', 'gpus', 'volumes', 'load-balancers', 'workloads', 'tenant-api'],
      duplicates: 0,
      conflicts: 0,
      tenants: TENANTS.length,
      tenantClusters: TENANTS.length,
      backfilled: back === 11,
      refused: [],
      unattributed: { total: 0, items: [] },
      gpus: {
        models,
        nodes: [{ node: 'gpu-a-1', ...model('NVIDIA-H100-80GB-HBM3', 28_800, 28_800) }],
      },
      contestedNodes: [
        { node: 'gpu-b-2', tenantClusters: [clusterOf('globex'), clusterOf('initech')] },
      ],
      openReversalSeconds: 0,
      expiredReversalSeconds: 0,
    },
  };
});

/** Two pods on one node, each for the whole hour. */
function explained({ id, quantity }: UsageEvent): Explanation {
  const gpus = { type: 'NVIDIA-H100-80GB-HBM3', profile: 'full', devices: 4, gpus: 4 };
  return {
    id,
    measured: Number(quantity),
    carried: 0,
    givenBack: 0,
    addsUp: true,
    subjects: [
      {
        kind: 'Pod',
        namespace: 'training',
        ownedBy: 'label of the Namespace',
        gpus,
        node: { capacityType: 'on-demand', decidedBy: { sku: 'nvidia.com/gpu.product' } },
      },
    ],
    nodes: ['gpu-a-1'],
    shares: [
      [0, 'uid-1', 'llm-finetune-0', 0, 0, HOUR, Number(quantity) / 2, 0],
      [0, 'uid-2', 'llm-finetune-1', 0, 0, HOUR, Number(quantity) / 2, 0],
    ],
    remainder: { count: 0, quantity: 0 },
  };
}

/** Everything agrees, but that the data lake has less of one sum. */
async function reconcile(
  ledger: Ledger,
  name: string,
  { from, to, tenant }: ReconcileQuery,
): Promise<ReconcileOutcome> {
  const sums = new UsageSums(['tenant'], 1000);
  for await (const { event: one } of ledger.scan(from, to, new AbortController().signal)) {
    if (tenant === undefined || one.tenant === tenant) sums.add(one);
  }
  const nothing = { pending: '0', deadLetters: '0', parked: '0', withheld: '0' };
  const rows = sums.rows().map(({ keys: [of = ''], metric, quantity }) => {
    const short = name === 'data-lake' && of === 'globex' && metric === 'tenant_gpu_hours';
    const reported = short ? '0' : quantity;
    const difference = short ? `-${quantity}` : '0';
    const row = { tenant: of, metric, ledger: quantity, delivered: quantity, ...nothing };
    return { ...row, reported, difference };
  });
  return { kind: 'reconciled', rows };
}

/** One event of an hour of the last day. */
export const SHOWCASE_EVENT = event(
  LINES[0] ?? UPTIME,
  Date.UTC(2026, 10, 20, 14),
  amountAt(LINES[0] ?? UPTIME, Date.UTC(2026, 10, 20, 14)),
).id;

function gpus(tenant: string, sku: string, at: Line['at']): Line {
  return { tenant, metric: 'tenant_gpu_hours', unit: 'gpu-hours', sku, at };
}

function line(tenant: string, metric: string, unit: string, at: Line['at']): Line {
  return { tenant, metric, unit, at };
}

const LETTERS: readonly DeadLetter[] = Array.from({ length: 27 }, (_, index) => ({
  sequence: index + 1,
  at: NOW - (index + 1) * HOUR,
  reason: index < 20 ? `422: unknown project "p-${index}"` : '413: the body is too large',
  event: event(LINES[index % LINES.length] ?? UPTIME, NOW - (index + 1) * HOUR, 1.25),
}));

/** Three kinds, most of them in prompts. Four times a day: each event costs every test time. */
function tokens(tenant: string, model: string, at: Line['at']): readonly Line[] {
  const shares = { input: 1, cache_read: 0.4, output: 0.25 };
  return Object.entries(shares).map(([token_type, share]) => ({
    ...line(tenant, 'tenant_inference_tokens', 'tokens', (hour) =>
      hour % 6 === 0 ? share * at(hour) : 0,
    ),
    dimensions: { model, token_type },
  }));
}

function event(
  { tenant, metric, unit, sku, dimensions }: Line,
  start: number,
  amount: number,
): UsageEvent {
  const quantity = parseDecimal(amount.toFixed(9));
  if (quantity === undefined) throw new RangeError(`quantity: not a decimal: ${amount}`);
  const identity: EventIdentity = {
    tenant,
    metric,
    window_start: formatInstant(start),
    window_end: formatInstant(start + HOUR),
    region: 'eu-central-1',
    sku,
    dimensions: dimensions ?? { tenant_cluster: clusterOf(tenant) },
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
