import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { WorkloadState } from '../observation/observation.ts';
import type { Span, Timeline } from '../observation/timeline.ts';
import { overlapMs } from '../usage/window.ts';
import { chargeIdentity } from './charge-identity.ts';
import type { Meter, MeterInput } from './meter.ts';
import { addTo } from './tally.ts';

const ONE = 1_000_000_000n;

/** `[from, to)` */
type Interval = readonly [from: number, to: number];

/**
 * One instance per tenant cluster while at least one control plane replica of it is ready, however
 * many workloads and replicas it has (design 7). External clusters have none.
 */
export const meterInstanceHours: Meter = (input) => {
  const { window, meteredFrom, observation } = input;
  for (const { state: cluster, from, to } of observation.tenantClusters.during(
    window.start,
    window.end,
  )) {
    if (!isMetered(cluster)) continue;
    const ready = readyOf(input, cluster, (timeline) => timeline.spans);
    const ms = within(ready, Math.max(from, window.start), Math.min(to, window.end));
    charge(input, cluster, { carried: false, weight: 1, ms });
  }
  if (meteredFrom >= window.start) return;
  const lateNamespaces = new Set([...observation.workloads.late()].map((late) => late.namespace));
  for (const { state: cluster, from, to } of observation.tenantClusters.during(
    meteredFrom,
    window.start,
  )) {
    if (!lateNamespaces.has(cluster.namespace) || !isMetered(cluster)) continue;
    const bounds = [Math.max(from, meteredFrom), Math.min(to, window.start)] as const;
    const before = readyOf(input, cluster, (timeline) => timeline.billed ?? timeline.spans);
    const after = readyOf(input, cluster, (timeline) => timeline.spans);
    charge(input, cluster, { carried: true, weight: -1, ms: within(before, ...bounds) });
    charge(input, cluster, { carried: true, weight: 1, ms: within(after, ...bounds) });
  }
  for (const { cluster, from } of observation.tenantClusters.learntAfter(input.learntUntil)) {
    if (from >= window.start || !isMetered(cluster)) continue;
    const before = readyOf(input, cluster, (timeline) => timeline.billed ?? timeline.spans);
    const ms = within(before, Math.max(from, meteredFrom), window.start);
    charge(input, cluster, { carried: true, weight: 1, ms });
  }
};

function isMetered(cluster: TenantCluster): boolean {
  return cluster.source === 'workload' && !cluster.excluded;
}

function charge(
  input: MeterInput,
  cluster: TenantCluster,
  piece: { readonly carried: boolean; readonly weight: 1 | -1; readonly ms: number },
): void {
  if (piece.ms === 0) return;
  const identity = chargeIdentity(cluster, 'tenant_instance_hours', input.settings);
  addTo(input.tally.charge(identity), piece, ONE);
}

/** When any control plane workload of the tenant cluster was ready, overlaps merged. */
function readyOf(
  input: MeterInput,
  cluster: TenantCluster,
  spansOf: (timeline: Timeline<WorkloadState>) => readonly Span<WorkloadState>[],
): readonly Interval[] {
  const intervals: Interval[] = [];
  for (const timeline of input.observation.workloads.inNamespace(cluster.namespace)) {
    for (const { from, to, state } of spansOf(timeline)) {
      const { managedBy, release } = state.labels;
      if (managedBy !== undefined) continue;
      if ((release ?? timeline.name) === cluster.name) intervals.push([from, to]);
    }
  }
  return merged(intervals);
}

function merged(intervals: readonly Interval[]): readonly Interval[] {
  const result: Interval[] = [];
  for (const [from, to] of intervals.toSorted(([a], [b]) => a - b)) {
    const last = result.at(-1);
    if (last === undefined || last[1] < from) result.push([from, to]);
    else result[result.length - 1] = [last[0], Math.max(last[1], to)];
  }
  return result;
}

function within(intervals: readonly Interval[], start: number, end: number): number {
  return intervals.reduce((sum, [from, to]) => sum + overlapMs(from, to, start, end), 0);
}
