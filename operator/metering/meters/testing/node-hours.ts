import { expect } from 'vitest';
import type { TenantCluster } from '../../../discovery/tenant-cluster.ts';
import type { UsageEvent } from '../../../model/event.ts';
import { gpuNode, type NodeFixture, variant } from './gpu-nodes.ts';
import { cluster, pod, type PodFixture } from './objects.ts';
import { type Closed, createWorld, HOUR, START, total, type WorldOptions } from './world.ts';

/** An hour of nodes at a constant state, and its charges. */

export const MANAGED_BY = 'vcluster.loft.sh/managed-by';
export const GPU = 'nvidia.com/gpu';

export interface NodeCase extends WorldOptions {
  readonly nodes: readonly NodeFixture[];
  readonly pods?: readonly PodFixture[];
  readonly clusters?: readonly TenantCluster[];
}

export function closed(given: NodeCase): Closed {
  const { nodes, pods = [], clusters = [cluster('a')], ...options } = given;
  const world = createWorld(options);
  for (const one of nodes) world.node(gpuNode(one));
  world.clusters(clusters);
  for (const one of pods) world.pod(pod(one));
  return world.close(START, START + HOUR);
}

export function hourOf(given: NodeCase): UsageEvent[] {
  return closed(given).events;
}

export const METRICS = {
  node: 'tenant_private_node_hours',
  gpu: 'tenant_gpu_hours',
  down: 'tenant_gpu_downtime_hours',
  cpu: 'tenant_cpu_core_hours',
  mem: 'tenant_memory_gb_hours',
};

/** Node hours, GPU hours, downtime, core-hours and GiB-hours. */
export function sums(
  events: readonly UsageEvent[],
  match: Readonly<Record<string, string>> = {},
): number[] {
  return Object.values(METRICS).map((metric) => total(events, metric, match));
}

/** The one event of a metric. */
export function only(events: readonly UsageEvent[], metric: keyof typeof METRICS): UsageEvent {
  const [event, ...others] = events.filter((one) => one.metric === METRICS[metric]);
  expect(others).toEqual([]);
  if (event === undefined) throw new Error(`no ${metric} event`);
  return event;
}

/** The node, dedicated by a label. */
export function dedicatedTo(
  fixture: NodeFixture,
  label = MANAGED_BY,
  value = 'tenant-a',
): NodeFixture {
  return variant(fixture, { labels: { [label]: value } });
}

/** {@link sums} of an hour of N1. */
export const COMPLETE = [1, 8, 0, 192, 2048];
