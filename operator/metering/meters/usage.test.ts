import { describe, expect, test } from 'vitest';
import type { UsageEvent } from '../../model/event.ts';
import { cluster, CONTROL_PLANE, node, ownedBy, pod } from './testing/objects.ts';
import { cpu, createWorld, hour, HOUR, memory, START, type World } from './testing/world.ts';

describe('CPU and memory by usage', () => {
  const byUsage = (basis: 'usage' | 'max', build: (world: World) => void): UsageEvent[] =>
    hour((world) => {
      world.clusters([cluster('a', { cpuMemoryBasis: basis })]);
      build(world);
    });

  test.each([
    {
      id: 'C01: samples in nanocores and mebibytes',
      usage: ['373456789n', '1536Mi'],
      want: [0.373456789, 1.5],
    },
    {
      id: 'C02: samples in microcores and bytes',
      usage: ['123457u', '524288001'],
      want: [0.123457, 0.488281251],
    },
  ] as const)('$id', ({ usage, want }) => {
    const events = byUsage('usage', (world) => {
      world.pod(pod({ name: 'p' }));
      world.sample({ p: usage }, START);
    });
    expect([cpu(events), memory(events)]).toEqual(want);
    const shared = { billing_mode: 'shared' };
    expect([cpu(events, shared), memory(events, shared)]).toEqual(want);
  });

  test('C11: basis max is per pod, so that nobody hides behind an over-requester', () => {
    const events = byUsage('max', (world) => {
      world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
      world.pod(pod({ name: 'q', containers: [{ cpu: '2' }] }));
      world.sample({ p: ['3', '0'], q: ['0', '0'] }, START);
    });
    expect(cpu(events)).toBe(5);
  });

  test('C12: basis max goes on with requests while the metrics API is down', () => {
    const events = byUsage('max', (world) => {
      world.pod(pod({ name: 'p', containers: [{ cpu: '2', memory: '1Gi' }] }));
    });
    expect([cpu(events), memory(events)]).toEqual([2, 1]);
  });

  test.each([
    ['C15: a control plane pod', false, { app: 'vcluster' }, ['400m', '1Gi'], [0.1, 0.5]],
    ['C16: a control plane pod, when set', true, { app: 'vcluster' }, ['400m', '1Gi'], [0.5, 1.5]],
    ['C15 by the specified label', false, { app: 'tenant-cluster' }, ['400m', '1Gi'], [0.1, 0.5]],
    ['C16 by the specified label', true, { app: 'tenant-cluster' }, ['400m', '1Gi'], [0.5, 1.5]],
    ['C17: etcd of a control plane', false, { app: 'vcluster-etcd' }, ['200m', '0'], [0.1, 0.5]],
    ['C17 on request', true, { app: 'vcluster-etcd' }, ['200m', '0'], [0.3, 0.5]],
  ] as const)('%s', (_id, meterControlPlane, app, used, want) => {
    const events = hour((world) => {
      world.clusters([cluster('a', { cpuMemoryBasis: 'usage', meterControlPlane })]);
      const metadata = ownedBy(app.app === 'vcluster-etcd' ? 'a-etcd' : 'a');
      world.pod(pod({ name: 'cp', labels: { ...CONTROL_PLANE, ...app }, metadata }));
      world.pod(pod({ name: 'p' }));
      world.sample({ cp: used, p: ['100m', '512Mi'] }, START);
    });
    expect([cpu(events), memory(events)]).toEqual(want);
  });

  test('C20: a pod without a sample is unknown, and does not delay the others', () => {
    const world = createWorld();
    world.clusters([cluster('a', { cpuMemoryBasis: 'usage' })]);
    world.pod(pod({ name: 'p' }));
    world.pod(pod({ name: 'q' }));
    world.sample({ p: ['1', '1Gi'] }, START);
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(cpu(events)).toBe(1);
    expect(diagnostics.unsampled.get('tenant-tenant-a-a')).toEqual({
      podMs: HOUR,
      from: START,
      to: START + HOUR,
    });
  });

  test('a pod that is older than its tenant cluster is no gap before it could be sampled', () => {
    const world = createWorld({ settings: { sampleValidMs: 600_000 } });
    const created = START + HOUR - 900_000;
    world.pod(pod({ name: 'p' }));
    world.clusters([cluster('a', { cpuMemoryBasis: 'usage' }, { createdAt: created })], created);
    const { diagnostics } = world.close(START, START + HOUR);
    expect(diagnostics.unsampled.get('tenant-tenant-a-a')).toEqual({
      podMs: 300_000,
      from: created + 600_000,
      to: START + HOUR,
    });
  });

  test('after a take-over a young pod is a gap until this process samples', () => {
    const created = START + HOUR - 900_000;
    const sampledFrom = created + 200_000;
    const world = createWorld({ sampledFrom, settings: { sampleValidMs: 600_000 } });
    world.pod(pod({ name: 'p' }));
    world.clusters([cluster('a', { cpuMemoryBasis: 'usage' }, { createdAt: created })], created);
    const { diagnostics } = world.close(START, START + HOUR);
    expect(diagnostics.unsampled.get('tenant-tenant-a-a')).toEqual({
      podMs: 200_000 + 300_000,
      from: created,
      to: START + HOUR,
    });
  });

  test('a sample counts for two intervals, not for ever, and never past the pod', () => {
    const world = createWorld({ settings: { sampleValidMs: 600_000 } });
    world.clusters([cluster('a', { cpuMemoryBasis: 'usage' })]);
    world.pod(pod({ name: 'p' }));
    world.pod(pod({ name: 'q', phase: 'Succeeded', finishedAt: START + 60_000 }), START + 61_000);
    world.sample({ p: ['6', '0'], q: ['6', '0'] }, START);
    const { events } = world.close(START, START + HOUR);
    expect(cpu(events)).toBe(1.1);
  });

  test('the capacity type of the event is the one while the pod ran', () => {
    const events = byUsage('usage', (world) => {
      world.pod(pod({ name: 'p' }));
      world.sample({ p: ['1', '0'] }, START);
      world.node(node('n7', { 'karpenter.sh/capacity-type': 'spot' }), START + HOUR / 4);
    });
    expect(cpu(events, { capacity_type: 'on-demand' })).toBe(0.25);
    expect(cpu(events, { capacity_type: 'spot' })).toBe(0.75);
  });
});
