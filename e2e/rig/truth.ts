import type { ReceivedEvent } from '../long/received.ts';
import {
  BURST_REQUESTS,
  type SimulatedTenantCluster,
  TENANT_CLUSTERS,
  tenantClusterId,
} from '../simulator/cloud.ts';
import type { PodTruth } from '../simulator/truth.ts';
import type { Explained, Stretch } from './gaps.ts';

const MS_PER_HOUR = 3_600_000;
const CPU = 'tenant_cpu_core_hours';

/** Something that the simulator ran at a constant rate, and so what must have been billed for it. */
export interface Series extends Explained {
  readonly name: string;
  /** Units in an hour. */
  readonly rate: number;
  /** When it ran. */
  readonly stretch: Stretch;
  /** It began and ended within what is accounted for. */
  readonly isShort: boolean;
  /** Equal where a credit for one series may be given to the other: they have one tenant, metric and rate. */
  readonly creditedWith: string;
  readonly matches: (event: ReceivedEvent) => boolean;
}

/** Usage that has to show in every window, however much it was. */
export interface Presence extends Explained {
  readonly name: string;
  readonly matches: (event: ReceivedEvent) => boolean;
}

/** Pods of the tenant cluster `burst` run in namespaces of their own, and are billed by what they request. */
export const BURST = 'tenant-tenant-burst-burst';
/** The namespace of the one among them that never ends. */
export const STEADY = 'steady';
const BURST_CORES = Number.parseInt(BURST_REQUESTS['cpu'] ?? '', 10) / 1000;

/** What ran at a constant rate within a stretch: short-lived pods from their records, and all that never changes. */
export function seriesWithin(stretch: Stretch, ended: readonly PodTruth[]): readonly Series[] {
  const short = ended
    .filter(({ tenantCluster }) => tenantCluster === BURST)
    .map(({ tenantNamespace, startedAt, finishedAt }) => ({
      namespace: tenantNamespace,
      stretch: { from: Date.parse(startedAt), to: Date.parse(finishedAt) },
    }))
    .filter(({ stretch: { from, to } }) => from >= stretch.from && to <= stretch.to)
    .map((pod) => ({ ...burstPod(pod.namespace, pod.stretch), isShort: true }));
  return [
    ...short,
    burstPod(STEADY, stretch),
    ...TENANT_CLUSTERS.flatMap((cluster) => lastingOf(cluster, stretch)),
  ];
}

/** What a tenant cluster has all the time apart from pods. */
function lastingOf(cluster: SimulatedTenantCluster, stretch: Stretch): readonly Series[] {
  const id = tenantClusterId(cluster);
  const gibibytes = cluster.claims.reduce((sum, { size }) => sum + inGibibytes(size), 0);
  const kinds = [
    ['tenant_instance_hours', 'workloads', 1],
    ['tenant_storage_gb_hours', 'volumes', gibibytes],
    ['tenant_lb_hours', 'load-balancers', cluster.loadBalancers.length],
  ] as const;
  return kinds.map(([metric, scope, rate]) => ({
    name: `${metric} of ${id}`,
    scope,
    tenantCluster: id,
    isSampled: false,
    rate,
    stretch,
    isShort: false,
    creditedWith: `${metric} of ${id}`,
    matches: (event) => event.metric === metric && clusterOf(event) === id,
  }));
}

/** Tenant clusters that always run pods and are billed by sampled usage. */
export const SAMPLED: readonly Presence[] = TENANT_CLUSTERS.filter(
  (cluster) => cluster.pods.length > 0,
).map((cluster) => {
  const id = tenantClusterId(cluster);
  return {
    name: `${CPU} of ${id}`,
    scope: 'pods',
    tenantCluster: id,
    isSampled: true,
    matches: (event) => event.metric === CPU && clusterOf(event) === id,
  };
});

function burstPod(namespace: string, stretch: Stretch): Series {
  return {
    name: `${CPU} of the pod in ${namespace}`,
    scope: 'pods',
    tenantCluster: BURST,
    isSampled: false,
    rate: BURST_CORES,
    stretch,
    isShort: false,
    creditedWith: `${CPU} of ${BURST}`,
    matches: (event) =>
      event.metric === CPU &&
      clusterOf(event) === BURST &&
      event.dimensions?.['namespace'] === namespace,
  };
}

/** Milliseconds for which a quantity pays at a rate in units an hour. */
export function paidMs(quantity: number, rate: number): number {
  return (quantity / rate) * MS_PER_HOUR;
}

function clusterOf({ dimensions }: ReceivedEvent): string | undefined {
  return dimensions?.['tenant_cluster'];
}

function inGibibytes(size: string): number {
  const [, number, unit] = /^(\d+)([GT])i$/.exec(size) ?? [];
  if (number === undefined) throw new Error(`rig: size: neither Gi nor Ti: "${size}"`);
  return Number(number) * (unit === 'T' ? 1024 : 1);
}
