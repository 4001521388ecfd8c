import { COLLECTOR_METRICS, type CollectorMetric } from '../../model/catalog.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { meterCpuAndMemory } from './cpu-memory.ts';
import { balanceGpus } from './gpu-balance.ts';
import { meterClaimedGpus, meterGpuHours } from './gpu-hours.ts';
import { meterLoadBalancers, meterStorage } from './allocated-resources.ts';
import { meterInstanceHours } from './instance-hours.ts';
import type { Meter } from './meter.ts';
import { notePrivateNodeWord } from './private-node-report.ts';
import { meterCompleteNodes } from './dedicated-node-hours.ts';

/** The kinds of objects that meters read. Observations and watches have a field of each name. */
export const METERED_OBJECTS = [
  'pods',
  'nodes',
  'resourceClaims',
  'resourceSlices',
  'volumes',
  'loadBalancers',
  'workloads',
] as const;

export type MeteredObject = (typeof METERED_OBJECTS)[number];

/** Usage whose windows are closed together on the host cluster; gaps and reports name it so. */
export const METER_SCOPES = ['pods', 'gpus', 'volumes', 'load-balancers', 'workloads'] as const;

export type MeterScope = (typeof METER_SCOPES)[number];

/** On the host cluster, or behind the API of a tenant cluster with private nodes. */
export type MeterPlace = 'host' | 'private nodes';

/** A pure function, and what it needs. */
export interface MeterUse {
  readonly measure: Meter;
  readonly scope: MeterScope;
  /** What it reads; it charges the life of the first. */
  readonly objects: readonly [charged: MeteredObject, ...others: MeteredObject[]];
  readonly places: readonly MeterPlace[];
}

/** How one metric is measured; its unit is in the catalogue. */
export interface MeasuredMetric {
  /** What is charged to it, in nano-units × milliseconds. */
  readonly amount: keyof typeof DIVISORS;
  /** Every function that charges it. A gap in the scope of the first is a gap of the metric. */
  readonly meters: readonly [MeterUse, ...MeterUse[]];
}

const MS_PER_HOUR = 3_600_000n;

/** What amounts are divided by to give nano-units of the event's quantity. */
const DIVISORS = {
  units: MS_PER_HOUR,
  bytes: MS_PER_HOUR * 2n ** 30n,
  /** Nano-parts of a GPU, so that every share adds up exactly. */
  'gpu-parts': MS_PER_HOUR * UNITS_PER_GPU,
} as const;

const HOST = ['host'] as const;
const PRIVATE = ['private nodes'] as const;
const BOTH = [...HOST, ...PRIVATE] as const;

const pods = use(meterCpuAndMemory, 'pods', BOTH, ['pods', 'nodes']);
const podGpus = use(meterGpuHours, 'gpus', BOTH, ['pods', 'nodes']);
const claimedGpus = use(meterClaimedGpus, 'gpus', BOTH, [
  'resourceClaims',
  'resourceSlices',
  'pods',
  'nodes',
]);
const wholeNodes = use(meterCompleteNodes, 'gpus', BOTH, ['nodes', 'resourceSlices']);
const volumes = use(meterStorage, 'volumes', BOTH, ['volumes']);
const loadBalancers = use(meterLoadBalancers, 'load-balancers', BOTH, ['loadBalancers']);
const controlPlanes = use(meterInstanceHours, 'workloads', HOST, ['workloads']);

/**
 * How each metric is measured. The scopes of windows, what the journal has, the worlds of tests and the table in
 * docs/explanation/metering.md#what-each-metric-is-measured-on derive from it.
 */
export const METERS: Readonly<Record<CollectorMetric, MeasuredMetric>> = {
  tenant_cpu_core_hours: { amount: 'units', meters: [pods, wholeNodes] },
  tenant_memory_gb_hours: { amount: 'bytes', meters: [pods, wholeNodes] },
  tenant_gpu_hours: { amount: 'gpu-parts', meters: [podGpus, claimedGpus, wholeNodes] },
  tenant_gpu_downtime_hours: { amount: 'gpu-parts', meters: [podGpus, claimedGpus, wholeNodes] },
  tenant_private_node_hours: { amount: 'units', meters: [wholeNodes] },
  tenant_storage_gb_hours: { amount: 'bytes', meters: [volumes] },
  tenant_lb_hours: { amount: 'units', meters: [loadBalancers] },
  tenant_instance_hours: { amount: 'units', meters: [controlPlanes] },
};

/** These charge nothing: they check what the meters did, and run after them. */
const CHECKS: readonly MeterUse[] = [
  use(balanceGpus, 'gpus', BOTH, ['nodes', 'pods', 'resourceClaims', 'resourceSlices']),
  use(notePrivateNodeWord, 'gpus', PRIVATE, ['nodes']),
];

function use(
  measure: Meter,
  scope: MeterScope,
  places: readonly MeterPlace[],
  objects: MeterUse['objects'],
): MeterUse {
  return { measure, scope, places, objects };
}

/**
 * All meters and checks of a place, each once, in the order in which they run: those of what is in namespaces, then those
 * of nodes, then the checks.
 */
export function metersAt(place: MeterPlace): readonly MeterUse[] {
  const charging = [...new Set(Object.values(METERS).flatMap(({ meters }) => meters))];
  const inNamespaces = charging.filter(chargesNamespaced);
  const others = charging.filter((use) => !inNamespaces.includes(use));
  return [...inNamespaces, ...others, ...CHECKS].filter(({ places }) => places.includes(place));
}

/** Whether what a meter charges is in a namespace: it can be measured for one namespace alone. */
export function chargesNamespaced({ objects: [charged] }: MeterUse): boolean {
  return isNamespaced(charged);
}

/** Nodes and what they offer are in no namespace. */
export function isNamespaced(object: MeteredObject): boolean {
  return object !== 'nodes' && object !== 'resourceSlices';
}

/** The kinds of objects that these read, each once. */
export function objectsOf(uses: readonly MeterUse[]): readonly MeteredObject[] {
  return METERED_OBJECTS.filter((object) => uses.some(({ objects }) => objects.includes(object)));
}

/** The scope of a metric's gaps; any other metric is one that Prometheus is asked for. */
export function gapScopeOf(metric: string): MeterScope | 'prometheus' {
  return isMeasured(metric) ? METERS[metric].meters[0].scope : 'prometheus';
}

const UNITS: ReadonlyMap<string, string> = new Map(
  COLLECTOR_METRICS.map(({ code, unit }) => [code, unit]),
);

/**
 * What divides the amounts of a metric to nano-units of its event quantity, and the unit of that. Throws a RangeError for
 * a metric without meters.
 */
export function quantityOf(metric: string): { readonly divisor: bigint; readonly unit: string } {
  const unit = UNITS.get(metric);
  if (unit === undefined || !isMeasured(metric)) {
    throw new RangeError(`unknown metric: metering: "${metric}"`);
  }
  return { divisor: DIVISORS[METERS[metric].amount], unit };
}

function isMeasured(metric: string): metric is CollectorMetric {
  return Object.hasOwn(METERS, metric);
}
