import { describe, expect, test } from 'vitest';
import { createDiscoveryRig } from '../../discovery/testing/discovery-rig.ts';
import { gpusOf } from '../../model/gpu-units.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Diagnostics } from './meter-reports.ts';
import { unattributedReason } from './unattributed.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { claim, cluster, iso, node, pod, workload } from './testing/objects.ts';
import { cpu, createWorld, HOUR, START, total, type World } from './testing/world.ts';

const GPU = 'nvidia.com/gpu';
const MINUTE = 60_000;
const managedBy = (name: string) => ({ 'vcluster.loft.sh/managed-by': name });

const NO_CLUSTER = 'managed by "a", which is no tenant cluster of its namespace';

/** The listed objects, with GPU-hours if they have any. */
function listed({ unattributed }: Diagnostics): Record<string, readonly [string, number]> {
  return Object.fromEntries(
    [...unattributed].map(([name, { reason, gpu }]) => [
      name,
      [reason, gpusOf(gpu) / HOUR] as const,
    ]),
  );
}

function world(...clusters: readonly ReturnType<typeof cluster>[]): World {
  const made = createWorld();
  made.clusters(clusters);
  return made;
}

describe('what a tenant cluster brought is neither billed nor listed', () => {
  test('A01: in a namespace without tenant clusters', () => {
    const made = world(cluster('b', {}, { namespace: 'tenant-b' }));
    made.pod(pod({ name: 'p', labels: managedBy('a'), containers: [{ cpu: '1' }] }));
    made.pod(pod({ name: 'agent', labels: { app: 'agent' }, containers: [{ cpu: '1' }] }));
    made.pod(pod({ name: 'relabelled', labels: {}, containers: [{ cpu: '1' }] }));
    const labels = managedBy('a');
    made.pod(pod({ name: 'relabelled', labels, containers: [{ cpu: '1' }] }), START + MINUTE);
    made.claim(claim({ name: 'v', labels: managedBy('a') }));
    const { events, diagnostics } = made.close(START, START + HOUR);
    expect(cpu(events)).toBe(0);
    expect(listed(diagnostics)).toEqual({
      'tenant-a/p': [NO_CLUSTER, 0],
      'tenant-a/relabelled': [NO_CLUSTER, 0],
      'tenant-a/v': [NO_CLUSTER, 0],
    });
  });

  test('A02: of another name than the tenant cluster of its namespace, or of no name among several', () => {
    const made = world(cluster('b'), cluster('c'));
    made.pod(pod({ name: 'p', labels: managedBy('a'), containers: [{ cpu: '1' }] }));
    made.pod(pod({ name: 'q', labels: managedBy('b'), containers: [{ cpu: '2' }] }));
    made.pod(pod({ name: 'r', labels: {}, containers: [{ cpu: '4' }] }));
    const { events, diagnostics } = made.close(START, START + HOUR);
    expect(cpu(events)).toBe(2);
    expect(listed(diagnostics)).toEqual({
      'tenant-a/p': [NO_CLUSTER, 0],
      'tenant-a/r': [
        'several tenant clusters in its namespace, and no label that names its owner',
        0,
      ],
    });
  });

  test('what had ended when a window began is not listed in it', () => {
    const made = world(cluster('b'), cluster('c'));
    const life = { phase: 'Succeeded', finishedAt: START + HOUR, labels: {} };
    made.pod(pod({ name: 'p', ...life, containers: [{ cpu: '1' }] }), START + HOUR);
    expect(Object.keys(listed(made.close(START, START + HOUR).diagnostics))).toEqual([
      'tenant-a/p',
    ]);
    expect(listed(made.close(START + HOUR, START + 2 * HOUR).diagnostics)).toEqual({});
  });

  test('A03: its GPUs are the system’s, the balance is complete, and the GPU time is reported', () => {
    const made = world(cluster('b', {}, { namespace: 'tenant-b' }));
    made.node(gpuNode({ ...N1, name: 'n1' }));
    const querying = (name: string, count: number, labels: Readonly<Record<string, string>>) =>
      made.pod(pod({ name, node: 'n1', labels, containers: [{ [GPU]: count }] }));
    querying('p', 2, managedBy('a'));
    querying('exporter', 1, {});
    const { events, diagnostics } = made.close(START, START + HOUR);
    expect(total(events, 'tenant_gpu_hours')).toBe(0);
    expect(listed(diagnostics)).toEqual({ 'tenant-a/p': [NO_CLUSTER, 2] });
    const [balance] = diagnostics.gpuBalances;
    expect(balance?.unaccounted).toBe(0n);
    expect(gpusOf(balance?.system ?? 0n) / HOUR).toBe(3);
  });

  test('A04: until its tenant cluster is there, and what came late is billed from its beginning', () => {
    const made = world();
    const half = START + HOUR / 2;
    made.node(gpuNode({ ...N1, name: 'n1' }));
    const gpus = [{ [GPU]: 2 }];
    made.pod(pod({ name: 'p', node: 'n1', labels: managedBy('a'), containers: gpus }));
    made.pod(pod({ name: 'untold', node: 'n1', labels: {}, containers: gpus }));
    made.pod(pod({ name: 'no-gpu', labels: managedBy('a'), containers: [{ cpu: '1' }] }));
    made.clusters([cluster('a', {}, { createdAt: half })], half);
    const { events, diagnostics } = made.close(START, START + HOUR);
    expect(total(events, 'tenant_gpu_hours')).toBe(2);
    expect(listed(diagnostics)).toEqual({
      'tenant-a/p': [NO_CLUSTER, 1],
      'tenant-a/no-gpu': [NO_CLUSTER, 0],
    });
    expect(diagnostics.gpuBalances[0]?.unaccounted).toBe(0n);
    const next = made.close(START + HOUR, START + 2 * HOUR);
    expect(total(next.events, 'tenant_gpu_hours')).toBe(4);
    expect(listed(next.diagnostics)).toEqual({});
  });

  test('a tenant cluster found late has what came late, and its neighbour is not billed twice', () => {
    const made = world(cluster('a'));
    const cpus = (name: string) =>
      made.pod(pod({ name, labels: managedBy(name), containers: [{ cpu: '1' }] }));
    cpus('a');
    cpus('b');
    const of = (events: readonly UsageEvent[]) =>
      Object.fromEntries(events.map(({ tenant, quantity }) => [tenant, Number(quantity)]));
    const first = made.close(START, START + HOUR);
    expect(of(first.events)).toEqual({ 'tenant-tenant-a-a': 1 });
    const late = cluster('b', {}, { createdAt: START + HOUR / 2 });
    made.clusters([cluster('a'), late], START + HOUR + 60_000);
    const { events, explanations } = made.close(START + HOUR, START + 2 * HOUR);
    expect(of(events)).toEqual({ 'tenant-tenant-a-a': 1, 'tenant-tenant-a-b': 1.5 });
    expect(explanations.map(({ measured, carried }) => [measured, carried])).toEqual([
      [1, 0],
      [1, 0.5],
    ]);
  });

  test('a tenant cluster found late is not billed for what was before the first window', () => {
    const made = world();
    made.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    made.workload(workload({ name: 'a' }));
    made.close(START, START + HOUR);
    made.clusters([cluster('a')], START + HOUR + MINUTE);
    const { events } = made.close(START + HOUR, START + 2 * HOUR);
    expect([cpu(events), total(events, 'tenant_instance_hours')]).toEqual([2, 2]);
    expect(events.map(({ properties }) => properties?.['carried_seconds'])).toEqual([3600, 3600]);
  });

  test('a tenant cluster found late gets one reversal for downtime of its node that was reported late', () => {
    const made = world();
    made.node(node('n7'));
    made.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    made.close(START, START + HOUR);
    made.clusters([cluster('a')], START + HOUR + MINUTE);
    const since = iso(START + HOUR / 2);
    const unreachable = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' };
    const taints = [{ ...unreachable, timeAdded: since }];
    made.node({ ...node('n7'), spec: { taints } }, START + HOUR + MINUTE);
    expect(cpu(made.close(START + HOUR, START + 2 * HOUR).events)).toBe(0.5);
  });

  test('A05: on a node that is billed as a whole its GPU time is paid for', () => {
    const made = world(cluster('b', {}, { namespace: 'tenant-b' }));
    const labels = { ...N1.labels, 'vcluster.loft.sh/managed-by': 'tenant-b' };
    made.node(gpuNode({ ...N1, name: 'n1', labels }));
    made.pod(pod({ name: 'p', node: 'n1', labels: managedBy('a'), containers: [{ [GPU]: 2 }] }));
    const { diagnostics } = made.close(START, START + HOUR);
    expect(listed(diagnostics)).toEqual({ 'tenant-a/p': [NO_CLUSTER, 0] });
  });

  test('A06: in a namespace that a syncer claims and discovery refuses, whatever its labels', () => {
    const made = world(cluster('b', {}, { namespace: 'tenant-b' }));
    made.observation.refusedNamespaces.add('tenant-a');
    made.node(gpuNode({ ...N1, name: 'n1' }));
    made.pod(pod({ name: 'imported', node: 'n1', labels: {}, containers: [{ [GPU]: 2 }] }));
    made.pod(pod({ name: 'p', labels: managedBy('b'), containers: [{ cpu: '1' }] }));
    made.pod(pod({ name: 'no-gpu', labels: {}, containers: [{ cpu: '1' }] }));
    const { diagnostics } = made.close(START, START + HOUR);
    const reason =
      'in a namespace that a syncer claims and that belongs to no tenant cluster; discovery_problems has the reason';
    expect(listed(diagnostics)).toEqual({
      'tenant-a/imported': [reason, 2],
      'tenant-a/p': [reason, 0],
      'tenant-a/no-gpu': [reason, 0],
    });
  });

  test('A07: where it came and went while a watch of discovery failed', async () => {
    const { discovery, sources, clock, add, uninstall } = createDiscoveryRig(
      { CPU_MEMORY_BASIS: 'requests' },
      START,
    );
    const made = createWorld();
    discovery.subscribe((clusters, at) => made.clusters(clusters, at));
    await discovery.runPass();
    sources.deployments.become('failing', 'status 503');
    await clock.advance(10 * MINUTE);
    const createdAt = clock.now();
    add('tenant-a', 'a', { created: iso(createdAt) });
    await discovery.runPass();
    await clock.advance(30 * MINUTE);
    const life = { createdAt, finishedAt: clock.now(), phase: 'Succeeded' };
    const ended = pod({ ...life, name: 'p', labels: managedBy('a'), containers: [{ cpu: '1' }] });
    made.pod(ended, clock.now());
    uninstall('tenant-a', 'a');
    await discovery.runPass();
    await clock.advance(MINUTE);
    sources.deployments.become('synced');
    await discovery.runPass();
    const { events, diagnostics } = made.close(START, START + HOUR);
    expect(cpu(events)).toBe(0.5);
    expect(listed(diagnostics)).toEqual({});
  });

  test('of an excluded tenant cluster, which is wanted, or of a control plane', () => {
    const made = world(cluster('a', {}, { excluded: true }));
    made.pod(pod({ name: 'p', labels: managedBy('a'), containers: [{ cpu: '1' }] }));
    made.pod(pod({ name: 'cp', labels: { app: 'vcluster', release: 'a' } }));
    expect(listed(made.close(START, START + HOUR).diagnostics)).toEqual({});
  });
});

test('the reason differs between labels of two kinds of tenants and a namespace of several', () => {
  const team = cluster('x', {}, { source: 'namespaces' });
  const both = { managedBy: 'a', claim: 'namespaces/x' };
  expect(unattributedReason(both, [cluster('a'), team])).toBe(
    'labels of two kinds of tenants, "a" and "namespaces/x", which contradict each other',
  );
  const noLabel = 'no label that names its owner, in a namespace of tenant clusters';
  expect(unattributedReason({}, [team])).toBe(noLabel);
  expect(unattributedReason({}, [cluster('a'), team])).toBe(
    'several tenant clusters in its namespace, and no label that names its owner',
  );
  for (const clusters of [[], [cluster('a')]]) {
    expect(unattributedReason({}, clusters)).toBe(
      'created after its tenant cluster was uninstalled',
    );
  }
});
