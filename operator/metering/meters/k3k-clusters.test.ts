import { describe, expect, test } from 'vitest';
import { k3kCluster } from '../../discovery/k3k/testing/objects.ts';
import { discoverHost, type Host } from '../../discovery/testing/host.ts';
import { namespaceObject } from '../../discovery/testing/objects.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { releaseLeft } from '../windows/ended-tenants.ts';
import { cluster, iso, ownedBy, pod } from './testing/objects.ts';
import { cpu, createWorld, HOUR, START, type World } from './testing/world.ts';

const MINUTE = 60_000;
const LONG_AGO = '2026-01-01T00:00:00Z';

function found(names: readonly string[], meterControlPlane = false): readonly TenantCluster[] {
  return discoverHost({
    objects: { k3k: names.map((name) => k3kCluster('k3k-n', name)) },
    environment: {
      CPU_MEMORY_BASIS: 'requests',
      'spec.discovery.sources': 'vcluster,k3k',
      METER_CONTROL_PLANE: String(meterControlPlane),
    },
  }).clusters;
}

function run(world: World, name: string, labels: Readonly<Record<string, string>>, cores: number) {
  const isServer = labels['role'] === 'server';
  const metadata = isServer ? ownedBy(`k3k-${labels['cluster']}-server`) : {};
  const containers = [{ cpu: String(cores) }];
  const object = pod({ namespace: 'k3k-n', name, labels, metadata, containers });
  world.pod(object);
  return object;
}

function worldOf(clusters: readonly TenantCluster[]): World {
  const world = createWorld();
  world.clusters(clusters);
  return world;
}

const SYNCED = (name: string) => ({ 'k3k.io/clusterName': name });

test('pods of several Clusters in one namespace are billed to each, and what is nobody’s is listed', () => {
  const world = worldOf(found(['a', 'b']));
  run(world, 'p', SYNCED('a'), 1);
  run(world, 'q', SYNCED('b'), 2);
  run(world, 'agent', { cluster: 'b', type: 'agent', mode: 'virtual' }, 4);
  run(world, 'server', { cluster: 'a', role: 'server' }, 8);
  run(world, 'other', {}, 16);
  const { events, diagnostics } = world.close(START, START + HOUR);
  expect(cpu(events, { tenant_cluster: 'k3k-k3k-n-a' })).toBe(1);
  expect(cpu(events, { tenant_cluster: 'k3k-k3k-n-b' })).toBe(6);
  expect(cpu(events)).toBe(7);
  expect([...diagnostics.unattributed].map(([key, { reason }]) => [key, reason])).toEqual([
    ['k3k-n/other', 'no label that names its owner, in a namespace of tenant clusters'],
  ]);
});

test('a Cluster of mode virtual without agents runs its tenant’s pods for nothing', () => {
  const { clusters } = discoverHost({
    objects: { k3k: [k3kCluster('k3k-n', 'a', { mode: 'virtual' })] },
    environment: { CPU_MEMORY_BASIS: 'requests', 'spec.discovery.sources': 'k3k' },
  });
  const world = worldOf(clusters);
  run(world, 'server', { cluster: 'a', role: 'server' }, 8);
  expect(cpu(world.close(START, START + HOUR).events)).toBe(8);
});

test('the control plane is billed where METER_CONTROL_PLANE is set', () => {
  const world = worldOf(found(['a'], true));
  run(world, 'server', { cluster: 'a', role: 'server' }, 8);
  expect(cpu(world.close(START, START + HOUR).events)).toBe(8);
});

describe('a tenant cluster of vCluster whose pods carry labels as k3k writes them', () => {
  const worldOfOne = (labels: Readonly<Record<string, string>>) => {
    const world = createWorld();
    world.clusters([cluster('a', { cpuMemoryBasis: 'requests', meterByNamespace: true })]);
    world.pod(pod({ namespace: 'tenant-a', name: 'p', labels, containers: [{ cpu: '2' }] }));
    return world.close(START, START + HOUR);
  };
  const LIKE_K3K = { cluster: 'broker', role: 'server' };

  test('loses the split by namespace', () => {
    const synced = {
      'vcluster.loft.sh/managed-by': 'a',
      'vcluster.loft.sh/namespace': 'web',
    };
    const { events } = worldOfOne({ ...synced, ...LIKE_K3K });
    expect(cpu(events, { namespace: 'web' })).toBe(2);
    expect(events).toEqual(worldOfOne(synced).events);
  });

  test('has them as the reason', () => {
    expect(JSON.stringify(worldOfOne(LIKE_K3K).explanations)).toContain(
      '"ownedBy":"the only tenant cluster of its namespace, or its control plane"',
    );
  });
});

test('the explanation has the labels of its controllers that name the Cluster', () => {
  const world = worldOf(found(['a']));
  run(world, 'p', SYNCED('a'), 1);
  expect(JSON.stringify(world.close(START, START + HOUR).explanations)).toContain(
    '"ownedBy":"labels that its own controllers write: k3k/tenant/a"',
  );
});

test('a pod of a Cluster that is not there is listed', () => {
  const world = worldOf(found(['a']));
  run(world, 'p', SYNCED('gone'), 1);
  const { events, diagnostics } = world.close(START, START + HOUR);
  expect(cpu(events)).toBe(0);
  expect([...diagnostics.unattributed.keys()]).toEqual(['k3k-n/p']);
});

test('a Cluster that is found late in a namespace of a tenant is not billed for what the tenant was billed for', () => {
  const discovered = (host: Host) =>
    discoverHost({
      ...host,
      namespaces: [namespaceObject('k3k-n', { labels: { team: 'x' }, created: LONG_AGO })],
      environment: {
        CPU_MEMORY_BASIS: 'requests',
        'spec.discovery.sources': 'vcluster,k3k,namespaces',
        'spec.discovery.namespaceTenantKeys': 'team',
      },
    }).clusters;
  const world = worldOf(discovered({}));
  run(world, 'p', SYNCED('b'), 6);
  expect(cpu(world.close(START, START + HOUR).events, { tenant_cluster: 'namespaces-x' })).toBe(6);
  // No discovery pass has succeeded for more than a window.
  const late = k3kCluster('k3k-n', 'b', { created: iso(START + 10 * MINUTE) });
  world.clusters(discovered({ objects: { k3k: [late] } }), START + HOUR + 20 * MINUTE);
  const { events } = world.close(START + HOUR, START + 2 * HOUR);
  expect(cpu(events, { tenant_cluster: 'namespaces-x' })).toBe(2);
  expect(cpu(events)).toBe(6);
});

test('what a deleted Cluster leaves behind is billed to its end', () => {
  const world = worldOf(found(['a']));
  const left = run(world, 'p', SYNCED('a'), 6);
  world.clusters([], START + 10 * MINUTE);
  releaseLeft(world.observation, START + 11 * MINUTE);
  world.podGone(left, START + 20 * MINUTE);
  expect(cpu(world.close(START, START + HOUR).events)).toBe(2);
  releaseLeft(world.observation, START + HOUR);
  expect(world.observation.tenantClusters.leaving).toEqual([]);
});

test('a deleted Cluster leaves the others of its namespace alone, and nothing that comes later is its own', () => {
  const world = worldOf(found(['a', 'b']));
  const left = run(world, 'p', SYNCED('a'), 6);
  run(world, 'q', SYNCED('b'), 1);
  world.clusters(found(['b']), START + 10 * MINUTE);
  releaseLeft(world.observation, START + 11 * MINUTE);
  const labels = SYNCED('a');
  const later = { namespace: 'k3k-n', labels, createdAt: START + 12 * MINUTE };
  world.pod(pod({ ...later, name: 'r', containers: [{ cpu: '60' }] }), START + 12 * MINUTE);
  world.podGone(left, START + 20 * MINUTE);
  const { events } = world.close(START, START + HOUR);
  expect(cpu(events, { tenant_cluster: 'k3k-k3k-n-a' })).toBe(2);
  expect(cpu(events, { tenant_cluster: 'k3k-k3k-n-b' })).toBe(1);
  expect(cpu(events)).toBe(3);
});
