import { describe, expect, test } from 'vitest';
import { cluster } from '../meters/testing/objects.ts';
import { TenantClusterTimelines } from './tenant-cluster-timeline.ts';

const born = (createdAt: number) => cluster('a', {}, { createdAt });
const tenantsOf = (timelines: TenantClusterTimelines, from: number, to: number) =>
  timelines
    .tenancies('tenant-a', from, to)
    .map((tenancy) => [tenancy.from, tenancy.to, ...tenancy.clusters.map(({ tenant }) => tenant)]);

describe('tenant clusters', () => {
  test('whose customer changes are split where the change became known', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([{ ...born(0), tenant: 'x' }], 100);
    timelines.observe([{ ...born(0), tenant: 'y' }], 200);
    expect(tenantsOf(timelines, 50, 300)).toEqual([
      [50, 200, 'x'],
      [200, 300, 'y'],
    ]);
  });

  test('that only change their display name are not split', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([born(0)], 100);
    const { version } = timelines;
    timelines.observe([{ ...born(0), displayName: 'new' }], 200);
    expect(tenantsOf(timelines, 50, 300)).toHaveLength(1);
    expect(timelines.version).toBe(version);
  });

  test('that vanish exist until the discovery pass that missed them, and may come back', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([born(0)], 100);
    timelines.observe([], 200);
    timelines.observe([born(0)], 300);
    expect(tenantsOf(timelines, 50, 400).map(([from, to]) => [from, to])).toEqual([
      [50, 200],
      [200, 400],
    ]);
  });

  test('that are new began after the previous discovery pass, whatever their creation time', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([], 100_000);
    timelines.observe([born(0)], 200_000);
    expect(timelines.learntAfter(0)).toEqual([{ cluster: born(0), from: 100_000 }]);
    expect(timelines.learntAfter(timelines.sequence)).toEqual([]);
  });

  test('that the watch reports only after a discovery pass lose what they used before it', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([], 100_000);
    timelines.observe([born(99_000)], 101_000);
    expect(timelines.learntAfter(0)).toEqual([{ cluster: born(99_000), from: 99_000 }]);
  });

  test('come back out of the journal as they were', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([{ ...born(0), tenant: 'x' }], 100);
    timelines.observe([{ ...born(0), tenant: 'y' }], 200);
    const restored = new TenantClusterTimelines();
    restored.restore(JSON.parse(JSON.stringify(timelines.snapshot())), timelines.observedAt);
    expect(tenantsOf(restored, 50, 300)).toEqual(tenantsOf(timelines, 50, 300));
    expect(restored.current).toEqual(timelines.current);
    restored.observe([{ ...born(0), tenant: 'y' }], 300);
    expect(restored.learntAfter(0)).toEqual([]);
  });

  test('that ended long ago are forgotten', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([born(0)], 100);
    timelines.observe([], 200);
    timelines.prune(200);
    expect(timelines.during(0, 1000)).toEqual([]);
  });

  const leavingAt = (timelines: TenantClusterTimelines, at: number) =>
    timelines.tenancies('tenant-a', at, at + 1).flatMap(({ leaving = [] }) => leaving);

  test('that are gone are leaving until nothing of them is there, also after a restart', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([born(0)], 100);
    timelines.observe([], 200);
    timelines.release(() => true, 300);
    timelines.prune(300);
    expect(leavingAt(timelines, 150)).toEqual([]);
    expect(leavingAt(timelines, 500)).toEqual([{ cluster: born(0), leftAt: 200 }]);
    const restored = new TenantClusterTimelines();
    restored.restore(JSON.parse(JSON.stringify(timelines.snapshot())), timelines.observedAt);
    expect(restored.current).toEqual([]);
    expect(restored.leaving).toEqual([{ cluster: born(0), leftAt: 200 }]);
    restored.release(() => false, 400);
    expect(restored.leaving).toEqual([]);
    expect(leavingAt(restored, 399)).toHaveLength(1);
    expect(leavingAt(restored, 400)).toEqual([]);
    restored.prune(400);
    expect(restored.snapshot()).toEqual([]);
  });

  test('that come back leave no longer', () => {
    const timelines = new TenantClusterTimelines();
    timelines.observe([born(0)], 100);
    timelines.observe([], 200);
    timelines.observe([], 250);
    timelines.observe([born(0)], 300);
    expect(leavingAt(timelines, 220)).toHaveLength(1);
    expect(leavingAt(timelines, 320)).toEqual([]);
    expect(timelines.leaving).toEqual([]);
  });
});
