import { describe, expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import { atOnce } from '../../model/at-once.ts';
import { assembleEvents } from './assemble.ts';
import type { ChargeIdentity } from './tally.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { cluster, node, pod, workload } from './testing/objects.ts';
import { cpu, createWorld, hour, HOUR, START, total, type World } from './testing/world.ts';

describe('identity of the events', () => {
  test('region and zone of the node are on node-related events only', () => {
    const labels = {
      'topology.kubernetes.io/zone': 'us-east-1a',
      'topology.kubernetes.io/region': 'us-east-1',
    };
    const build = (world: World) => {
      world.node(node('n7', labels));
      world.workload(workload({ name: 'a' }));
      world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    };
    const plain = hour(build);
    expect(cpu(plain, { region: 'default', zone: 'us-east-1a' })).toBe(1);
    const byNode = hour(build, { settings: { regionFromNode: true } });
    expect(cpu(byNode, { region: 'us-east-1' })).toBe(1);
    const instance = byNode.find((event) => event.metric === 'tenant_instance_hours');
    expect(instance?.region).toBe('default');
    expect(instance?.dimensions).toEqual({ tenant_cluster: 'tenant-tenant-a-a' });
  });

  test('ZONE fills in where the node has no zone', () => {
    const events = hour((world) => world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] })), {
      settings: { zone: 'z9' },
    });
    expect(cpu(events, { zone: 'z9' })).toBe(1);
  });

  test('every field of the specification is there, in one event per metric', () => {
    const [event] = hour((world) => {
      world.clusters([cluster('a', {}, { project: 'p1', tenantClass: 'enterprise' })]);
      world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    });
    expect(event).toEqual({
      schema_version: 'svc.usage/v1',
      id: event?.id,
      tenant: 'tenant-tenant-a-a',
      metric: 'tenant_cpu_core_hours',
      quantity: '1',
      unit: 'core-hours',
      window_start: '2026-03-01T12:00:00Z',
      window_end: '2026-03-01T13:00:00Z',
      recorded_at: '2026-03-01T00:00:00Z',
      region: 'default',
      project: 'p1',
      resource_id: 'tenant-tenant-a-a',
      dimensions: {
        billing_mode: 'shared',
        capacity_type: 'on-demand',
        tenant_class: 'enterprise',
        tenant_cluster: 'tenant-tenant-a-a',
      },
      properties: { basis: 'requests' },
      source: 'collector',
    });
    expect(event?.id).toMatch(/^svc1_[0-9a-f]{32}$/);
  });
});

describe('charges that cannot become events', () => {
  const settled = (identity: ChargeIdentity) => {
    const amount = 1_000_000_000n * BigInt(HOUR);
    const charge = { identity, key: '', amount, carried: 0n, carriedMs: 0, properties: {} };
    return { charge, total: amount, carriedMs: 0 };
  };
  const identity = { tenant: 'x', metric: 'tenant_cpu_core_hours', region: 'r', resource_id: 'x' };
  const options = {
    window: { start: START, end: START + HOUR },
    recordedAt: '2026-03-01T00:00:00Z',
  };

  test('cost nobody else, and are reported with their metric and resource', () => {
    const charges = [
      settled({ ...identity, metric: 'no_such_hours' }),
      settled({ ...identity, tenant: '' }),
      settled(identity),
    ];
    const { events, sources, refused } = atOnce(
      assembleEvents(charges, { ...options, backfilled: false }),
    );
    expect(events).toMatchObject([{ tenant: 'x', quantity: '1' }]);
    expect(sources).toEqual(charges.slice(2));
    expect(refused.map((text) => text.split(': ').at(-1))).toEqual([
      'no_such_hours of "x"',
      'tenant_cpu_core_hours of "x"',
    ]);
    expect(refused[1]).toContain('tenant');
  });

  test('dimensions stand in one order, and an event without properties has no such field', () => {
    const dimensions = { zone: 'z', capacity_type: 'spot', billing_mode: 'shared' };
    const charges = [settled({ ...identity, dimensions })];
    const { events } = atOnce(assembleEvents(charges, { ...options, backfilled: false }));
    const names = ['billing_mode', 'capacity_type', 'zone'];
    expect(Object.keys(events[0]?.dimensions ?? {})).toStrictEqual(names);
    expect(events[0]).not.toHaveProperty('properties');
  });

  test('a window that was closed late is marked on its events', () => {
    const backfilled = atOnce(
      assembleEvents([settled(identity)], { ...options, backfilled: true }),
    );
    expect(backfilled.events[0]?.properties).toEqual({ backfilled: true });
  });
});

describe('windows', () => {
  test('W02: a minute of eight units has nine decimals', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1));
    world.pod(pod({ name: 'p', node: 'n1', containers: [{ 'nvidia.com/gpu': 8 }] }));
    const { events } = world.close(START, START + 60_000);
    expect(events.map(({ metric, quantity }) => [metric, quantity])).toEqual([
      ['tenant_gpu_hours', '0.133333333'],
    ]);
  });

  const measured = (cores: string, pods = 1): UsageEvent[] =>
    hour((world) => {
      world.node(gpuNode(N1));
      for (let index = 0; index < pods; index += 1) {
        const containers = [{ cpu: cores, memory: '1Gi', 'nvidia.com/gpu': 1 }];
        world.pod(pod({ name: `p${index}`, node: 'n1', containers }));
      }
    });
  const idsOf = (events: readonly UsageEvent[]) => events.map((event) => event.id);

  test('W03: a window that is measured twice is in the ledger once', async () => {
    const ledger = createMemoryLedger();
    for (const want of ['accepted', 'duplicate']) {
      const outcome = await ledger.append({ events: measured('1') });
      if (outcome.kind === 'failed') throw new Error(outcome.message);
      expect(outcome.outcomes).toEqual([want, want, want]);
    }
    const page = await ledger.read(0, 100);
    if (page.kind === 'failed') throw new Error(page.message);
    expect(page.events.map(({ event }) => event.id)).toEqual(idsOf(measured('1')));
  });

  test('W04: another quantity or another property makes no other event', () => {
    const [one, other] = [measured('1'), measured('2', 3)];
    expect(idsOf(other)).toEqual(idsOf(one));
    expect(other.map(({ quantity }) => quantity)).not.toEqual(one.map(({ quantity }) => quantity));
    const properties = (events: readonly UsageEvent[]) => events.map((event) => event.properties);
    expect(properties(other)).not.toEqual(properties(one));
  });

  test('W10: with WATCH_DELETIONS=false a deleted pod is billed to the last window end it saw', () => {
    const billed = (watchDeletions: boolean): number => {
      const world = createWorld({ watchDeletions, windowMs: 60_000 });
      world.clusters([cluster('a')]);
      const object = pod({ name: 'p', containers: [{ cpu: '36' }] });
      world.pod(object);
      world.podGone(object, START + 80_000);
      const first = world.close(START, START + 60_000).events;
      return cpu([...first, ...world.close(START + 60_000, START + 120_000).events]);
    };
    expect(billed(true)).toBe(0.8);
    expect(billed(false)).toBe(0.6);
  });

  test('W11: a deletionTimestamp in the future bills nothing beyond the last container', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const terminating = { deletionTimestamp: '2026-03-01T12:05:00Z' };
    const running = pod({ name: 'p', containers: [{ cpu: '36' }] });
    world.pod(running);
    world.pod(
      { ...running, metadata: { ...(running['metadata'] as RawObject), ...terminating } },
      START,
    );
    const ended = pod({
      name: 'p',
      containers: [{ cpu: '36' }],
      phase: 'Succeeded',
      finishedAt: START + 5000,
    });
    world.pod(ended, START + 6000);
    world.podGone(ended, START + 7000);
    expect(cpu(world.close(START, START + HOUR).events)).toBe(0.05);
  });

  test('W12: a pod made again under its name is another pod', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const first = pod({ name: 'p', containers: [{ cpu: '36' }] });
    world.pod(first);
    world.podGone(first, START + 10_000);
    const again = pod({
      name: 'p',
      createdAt: START + 20_000,
      startedAt: START + 21_000,
      containers: [{ cpu: '36' }],
    });
    const renewed = { ...again, metadata: { ...(again['metadata'] as RawObject), uid: 'other' } };
    world.pod(renewed, START + 22_000);
    expect(cpu(world.close(START, START + 60_000).events)).toBe(0.1 + 0.39);
  });

  test('control plane workloads that take over from each other are one instance, all of the time', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const second = workload({ name: 'a', kind: 'Deployment' });
    world.workload(second, START + 5 * 60_000);
    const first = workload({ name: 'a' });
    world.workload(first);
    world.workloadGone(first, START + 10 * 60_000);
    world.workloadGone(second, START + HOUR / 2);
    const { events } = world.close(START, START + HOUR);
    expect(total(events, 'tenant_instance_hours')).toBe(0.5);
  });

  test('a control plane that another process billed for longer than it was ready is given back', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.workload(workload({ name: 'a' }));
    const before = world.close(START, START + HOUR);
    expect(total(before.events, 'tenant_instance_hours')).toBe(1);
    const { workloads } = world.observation;
    const ready = workloads.unwritten.drain().changed.map((timeline) => ({
      ...timeline,
      billed: timeline.spans,
      spans: timeline.spans.flatMap((span) => [
        { ...span, to: START + HOUR / 2 },
        { ...span, from: START + HOUR },
      ]),
    }));
    workloads.forget();
    workloads.restore(ready, START + HOUR);
    const { events, explanations } = world.close(START + HOUR, START + 2 * HOUR);
    expect(total(events, 'tenant_instance_hours')).toBe(0.5);
    expect(events.map(({ properties }) => properties?.['carried_seconds'])).toEqual([-1800]);
    expect(explanations).toMatchObject([{ measured: 1, carried: -0.5 }]);
  });

  test('W15: a tenant cluster deleted in mid-window is charged up to then', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const object = workload({ name: 'a' });
    world.workload(object);
    world.workloadGone(object, START + 30_000);
    world.clusters([], START + 45_000);
    const { events } = world.close(START, START + 60_000);
    expect(total(events, 'tenant_instance_hours')).toBe(0.008333333);
  });
});
