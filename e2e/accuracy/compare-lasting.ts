import type { ReceivedEvent } from '../long/received.ts';
import {
  TENANT_CLUSTERS,
  type SimulatedTenantCluster,
  tenantClusterId,
} from '../simulator/cloud.ts';
import type { ClosedWindow } from './bills.ts';
import { figuresOf, type MetricFigures, nanosOf, sumsBy } from './figures.ts';

const METRICS = [
  {
    metric: 'tenant_storage_gb_hours',
    scope: 'volumes',
    rate: ({ claims }: SimulatedTenantCluster) =>
      claims.reduce((sum, { size }) => sum + parseQuantity(size), 0),
  },
  {
    metric: 'tenant_lb_hours',
    scope: 'load-balancers',
    rate: ({ loadBalancers }: SimulatedTenantCluster) => loadBalancers.length,
  },
  { metric: 'tenant_instance_hours', scope: 'workloads', rate: () => 1 },
] as const;

/**
 * What was there all the time is billed for all the time, from the start of the first window to the
 * end of the last: neither a kill nor a restart leaves a hole, or counts one twice.
 */
export function compareLasting(
  windows: readonly ClosedWindow[],
  events: readonly ReceivedEvent[],
): readonly MetricFigures[] {
  return METRICS.map(({ metric, scope, rate }) => {
    const closed = windows.filter(({ scopes }) => scopes.includes(scope));
    const from = Math.min(...closed.map(({ start }) => start));
    const to = Math.max(...closed.map(({ end }) => end));
    const paid = sumsBy(events, metric, ({ dimensions }) => dimensions?.['tenant_cluster']);
    const bills = TENANT_CLUSTERS.map((cluster) => ({
      name: tenantClusterId(cluster),
      due: nanosOf(rate(cluster), to - from),
      paid: paid.get(tenantClusterId(cluster)) ?? 0n,
    }));
    return figuresOf(
      metric,
      'what lasts',
      bills.filter(({ due }) => due > 0n),
    );
  });
}

/** GiB of a size such as `200Gi` or `2Ti`. */
function parseQuantity(size: string): number {
  const match = /^(\d+)([GT])i$/.exec(size);
  if (match === null) throw new RangeError(`accuracy: no size in Gi or Ti: "${size}"`);
  return Number(match[1]) * (match[2] === 'T' ? 1024 : 1);
}
