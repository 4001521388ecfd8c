import { COLLECTOR_METRICS, type CollectorMetric } from '../../model/catalog.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { meterCpuAndMemory } from './cpu-memory.ts';
import { balanceGpus } from './gpu-balance.ts';
import { meterClaimedGpus, meterGpuHours } from './gpu-hours.ts';
import { meterLoadBalancers, meterStorage } from './allocated-resources.ts';
import { meterInstanceHours } from './instance-hours.ts';
import type { Meter } from './meter.ts';
import { reportPrivateNodes } from './private-node-report.ts';
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

/** A meter and what it needs. */
export interface MeterUse {
  readonly measure: Meter;
  readonly scope: MeterScope;
  /** The kinds that it reads; it charges the lifetime of the first. */
  readonly objects: readonly [charged: MeteredObject, ...others: MeteredObject[]];
  readonly places: readonly MeterPlace[];
}

/** How one metric is measured; its unit is in the catalogue. */
export interface MeasuredMetric {
  /** The unit of its amounts, which are nano-units × milliseconds. */
  readonly amount: keyof typeof DIVISORS;
  /** Every meter that charges it. A gap in the scope of the first is a gap of the metric. */
  readonly meters: readonly [MeterUse, ...MeterUse[]];
}

const MS_PER_HOUR = 3_600_000n;

/** Divisors from amounts to nano-units of the event's quantity. */
const DIVISORS = {
  units: MS_PER_HOUR,
  bytes: MS_PER_HOUR * 2n ** 30n,
  /** Billionths of {@link UNITS_PER_GPU}, so that all shares sum exactly. */
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
const completeNodes = use(meterCompleteNodes, 'gpus', BOTH, ['nodes', 'resourceSlices']);
const volumes = use(meterStorage, 'volumes', BOTH, ['volumes']);
const loadBalancers = use(meterLoadBalancers, 'load-balancers', BOTH, ['loadBalancers']);
const controlPlanes = use(meterInstanceHours, 'workloads', HOST, ['workloads']);

/**
 * How each metric is measured. The scopes of windows, the journal's kinds, the worlds of tests and
 * the table in docs/explanation/metering.md#what-each-metric-is-measured-on derive from it.
 */
export const METERS: Readonly<Record<CollectorMetric, MeasuredMetric>> = {
  tenant_cpu_core_hours: { amount: 'units', meters: [pods, completeNodes] },
  tenant_memory_gb_hours: { amount: 'bytes', meters: [pods, completeNodes] },
  tenant_gpu_hours: { amount: 'gpu-parts', meters: [podGpus, claimedGpus, completeNodes] },
  tenant_gpu_downtime_hours: { amount: 'gpu-parts', meters: [podGpus, claimedGpus, completeNodes] },
  tenant_private_node_hours: { amount: 'units', meters: [completeNodes] },
  tenant_storage_gb_hours: { amount: 'bytes', meters: [volumes] },
  tenant_lb_hours: { amount: 'units', meters: [loadBalancers] },
  tenant_instance_hours: { amount: 'units', meters: [controlPlanes] },
};

/** Checks charge nothing: they verify the results of the meters and run after them. */
const CHECKS: readonly MeterUse[] = [
  use(balanceGpus, 'gpus', BOTH, ['nodes', 'pods', 'resourceClaims', 'resourceSlices']),
  use(reportPrivateNodes, 'gpus', PRIVATE, ['nodes']),
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
 * Returns the meters and checks of a place in the order in which they run: meters of namespaced
 * objects, meters of nodes, checks.
 */
export function metersAt(place: MeterPlace): readonly MeterUse[] {
  const charging = [...new Set(Object.values(METERS).flatMap(({ meters }) => meters))];
  const inNamespaces = charging.filter(chargesNamespaced);
  const others = charging.filter((use) => !inNamespaces.includes(use));
  return [...inNamespaces, ...others, ...CHECKS].filter(({ places }) => places.includes(place));
}

/** Whether a meter charges namespaced objects: it can then measure one namespace alone. */
export function chargesNamespaced({ objects: [charged] }: MeterUse): boolean {
  return isNamespaced(charged);
}

/** Whether objects of a kind have a namespace; nodes and resource slices have none. */
export function isNamespaced(object: MeteredObject): boolean {
  return object !== 'nodes' && object !== 'resourceSlices';
}

/** Returns the kinds of objects that these meters read, each once. */
export function objectsOf(uses: readonly MeterUse[]): readonly MeteredObject[] {
  return METERED_OBJECTS.filter((object) => uses.some(({ objects }) => objects.includes(object)));
}

/** Returns the scope of a metric's gaps; metrics without meters come from Prometheus. */
export function gapScopeOf(metric: string): MeterScope | 'prometheus' {
  return isMeasured(metric) ? METERS[metric].meters[0].scope : 'prometheus';
}

const UNITS: ReadonlyMap<string, string> = new Map(
  COLLECTOR_METRICS.map(({ code, unit }) => [code, unit]),
);

/**
 * Returns the divisor from a metric's amounts to nano-units of its event quantity, and the unit of
 * that. Throws a RangeError for a metric without meters.
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
