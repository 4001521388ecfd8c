import { expect, test } from 'vitest';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { cluster, workload } from './testing/objects.ts';
import { createWorld, HOUR, START, total } from './testing/world.ts';

const INSTANCE = 'tenant_instance_hours';

test.each<[string, Partial<TenantCluster>, number]>([
  ['that is a vCluster', {}, 1],
  ['that is excluded', { excluded: true }, 0],
  ['that is namespaces', { source: 'namespaces' }, 0],
  ['of another kind', { source: 'k3k' }, 0],
])('a tenant cluster %s pays for another workload than its control plane', (_, more, hours) => {
  const world = createWorld();
  world.workload(workload({ name: 'a' }));
  world.workload(workload({ name: 'other' }));
  world.clusters([cluster('a', {}, more)]);
  expect(total(world.close(START, START + HOUR).events, INSTANCE)).toBe(hours);

  const late = createWorld();
  late.workload(workload({ name: 'a' }));
  late.close(START, START + HOUR);
  late.clusters([cluster('a', {}, more)], START + HOUR + 60_000);
  const { events } = late.close(START + HOUR, START + 2 * HOUR);
  expect(total(events, INSTANCE)).toBe(2 * hours);
});

test('time in which two workloads were ready is billed twice, or lost by the order in which they are listed', () => {
  const at = (minute: number): number => START + minute * 60_000;
  const [first, second] = ['etcd', 'a'].map((name) =>
    workload({ name, labels: { app: 'vcluster', release: 'a' } }),
  );
  if (first === undefined || second === undefined) throw new Error('no workloads');
  for (const isReversed of [false, true]) {
    const world = createWorld();
    world.clusters([cluster('a')]);
    if (isReversed) world.workload(second, at(30));
    world.workload(first, at(10));
    if (!isReversed) world.workload(second, at(30));
    world.workloadGone(first, at(40));
    expect(total(world.close(START, START + HOUR).events, INSTANCE)).toBeCloseTo(50 / 60, 9);
  }
});
