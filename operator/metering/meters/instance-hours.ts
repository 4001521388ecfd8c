import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { WorkloadState } from '../timelines/retained-objects.ts';
import { type Span, type Timeline, uncertainOf } from '../timelines/timeline.ts';
import { overlapMs } from '../../model/window.ts';
import { chargeIdentity } from './charge-identity.ts';
import type { Meter, MeterInput } from './meter.ts';
import { addTo } from './tally.ts';

const ONE = 1_000_000_000n;

/** A stretch in which one control plane workload was ready. */
interface ReadyTime extends Span<WorkloadState> {
  readonly workload: Timeline<WorkloadState>;
}

/**
 * Charges one instance per tenant cluster while at least one control plane replica is ready,
 * whatever the number of workloads and replicas (docs/explanation/metering.md#instance-hours).
 * External clusters have none.
 */
export const meterInstanceHours: Meter = function* (input) {
  const { window, meteredFrom, observation } = input;
  for (const { state: cluster, from, to } of observation.tenantClusters.during(
    window.start,
    window.end,
  )) {
    if (!isMetered(cluster)) continue;
    const ready = readyOf(input, cluster, (timeline) => timeline.spans);
    const bounds = [Math.max(from, window.start), Math.min(to, window.end)] as const;
    charge(input, cluster, { carried: false, weight: 1 }, ready, bounds);
    yield;
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
    charge(input, cluster, { carried: true, weight: -1 }, before, bounds);
    charge(input, cluster, { carried: true, weight: 1 }, after, bounds);
    yield;
  }
  for (const { cluster, from } of observation.tenantClusters.learntAfter(input.learntUntil)) {
    if (from >= window.start || !isMetered(cluster)) continue;
    const before = readyOf(input, cluster, (timeline) => timeline.billed ?? timeline.spans);
    const bounds = [Math.max(from, meteredFrom), window.start] as const;
    charge(input, cluster, { carried: true, weight: 1 }, before, bounds);
    yield;
  }
};

function isMetered(cluster: TenantCluster): boolean {
  return cluster.source === 'workload' && !cluster.excluded;
}

function charge(
  input: MeterInput,
  cluster: TenantCluster,
  pass: { readonly carried: boolean; readonly weight: 1 | -1 },
  ready: readonly ReadyTime[],
  [start, end]: readonly [start: number, end: number],
): void {
  for (const time of ready) {
    const { workload, state, from, to } = time;
    const ms = overlapMs(from, to, start, end);
    if (ms === 0) continue;
    const identity = chargeIdentity(cluster, 'tenant_instance_hours', input.settings);
    const evidence = {
      kind: 'Workload',
      object: workload,
      state,
      from: Math.max(from, start) - input.window.start,
      to: Math.min(to, end) - input.window.start,
      carried: pass.carried,
    } as const;
    const uncertain = uncertainOf(time, Math.max(from, start), Math.min(to, end));
    addTo(input.tally.charge(identity), { ...pass, ms, uncertain }, ONE, evidence);
  }
}

/** Returns when any control plane workload was ready; the earlier one has an overlap. */
function readyOf(
  input: MeterInput,
  cluster: TenantCluster,
  spansOf: (timeline: Timeline<WorkloadState>) => readonly Span<WorkloadState>[],
): readonly ReadyTime[] {
  const times: ReadyTime[] = [];
  for (const workload of input.observation.workloads.inNamespace(cluster.namespace)) {
    for (const span of spansOf(workload)) {
      const { labels } = span.state;
      if (labels.managedBy !== undefined) continue;
      if ((labels.release ?? workload.name) === cluster.name) {
        times.push({ ...span, workload });
      }
    }
  }
  return withoutOverlaps(times);
}

function withoutOverlaps(times: readonly ReadyTime[]): readonly ReadyTime[] {
  let reached = -Infinity;
  return times
    .toSorted((a, b) => a.from - b.from)
    .flatMap((time) => {
      const from = Math.max(time.from, reached);
      reached = Math.max(reached, time.to);
      const { workload, state, to, uncertainTo } = time;
      if (from >= to) return [];
      // Its begin is certain where another workload was ready before.
      if (from > time.from) return [{ workload, state, from, to, uncertainTo }];
      return [time];
    });
}
