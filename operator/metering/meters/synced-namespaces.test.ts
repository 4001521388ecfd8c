import { describe, expect, test } from 'vitest';
import { discoverHost } from '../../discovery/testing/host.ts';
import { namespaceObject, workload } from '../../discovery/testing/objects.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { releaseLeft } from '../windows/ended-tenants.ts';
import { resourceClaim, slice } from './testing/claims.ts';
import { DRA_NODE } from './testing/claim-scene.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { claim, iso, pod, service } from './testing/objects.ts';
import { cpu, createWorld, HOUR, START, total, type World } from './testing/world.ts';

const MINUTE = 60_000;

/** A Namespace that the syncer of a tenant cluster has mapped. */
function mapped(name: string, of = 'a', created = START - 24 * HOUR): RawObject {
  const labels = {
    'vcluster.loft.sh/vcluster-name': of,
    'vcluster.loft.sh/vcluster-namespace': `tenant-${of}`,
  };
  return namespaceObject(name, { labels, created: iso(created) });
}

/** The result of a discovery pass with two tenant clusters in separate namespaces. */
function found(...namespaces: readonly RawObject[]): readonly TenantCluster[] {
  const workloads = [workload('tenant-a', 'a'), workload('tenant-b', 'b')];
  const environment = { CPU_MEMORY_BASIS: 'requests' };
  return discoverHost({ workloads, namespaces, environment }).clusters;
}

/** An imported object: without a label of the syncer. */
const imported = { namespace: 'team-1', labels: {} };

/** The fixture in another namespace. */
function inTeam(object: RawObject, labels: Readonly<Record<string, string>> = {}): RawObject {
  const metadata = { ...Object(object['metadata']), namespace: 'team-1', labels };
  return { ...object, metadata };
}

function worldOf(...namespaces: readonly RawObject[]): World {
  const world = createWorld();
  world.clusters(found(...namespaces));
  return world;
}

/** Core-hours of the first hour, by tenant cluster. */
function coresOf(world: World): Readonly<Record<string, number>> {
  const { events } = world.close(START, START + HOUR);
  const of = (name: string) => cpu(events, { tenant_cluster: `tenant-tenant-${name}-${name}` });
  return { a: of('a'), b: of('b') };
}

describe('what is in a namespace that a syncer maps is its tenant cluster’s', () => {
  test.each([
    ['as it is imported', {}],
    ['labelled by the syncer', { 'vcluster.loft.sh/managed-by': 'a' }],
    ['that says it is another’s', { 'vcluster.loft.sh/managed-by': 'b' }],
    ['that looks like the control plane', { app: 'vcluster', release: 'a' }],
    ['that looks like a helper of the control plane', { app: 'vcluster-snapshot' }],
  ])('C29: a pod %s', (_, labels) => {
    const world = worldOf(mapped('team-1'));
    world.pod(pod({ ...imported, labels, name: 'p', containers: [{ cpu: '3' }] }));
    expect(coresOf(world)).toEqual({ a: 3, b: 0 });
  });

  test('G58: a pod with GPUs, which were free', () => {
    const world = worldOf(mapped('team-1'));
    world.node(gpuNode(N1));
    const containers = [{ 'nvidia.com/gpu': 2 }];
    world.pod(pod({ ...imported, name: 'p', node: 'n1', containers }));
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(total(events, 'tenant_gpu_hours', { tenant: 'tenant-tenant-a-a' })).toBe(2);
    expect(diagnostics.gpuBalances.map(({ system, unaccounted }) => [system, unaccounted])).toEqual(
      [[0n, 0n]],
    );
  });

  test('D29: a resource claim, whatever its template', () => {
    const world = worldOf(mapped('team-1'));
    world.node(gpuNode(DRA_NODE));
    world.slice(slice());
    world.pod(pod({ ...imported, name: 'c', node: 'n1' }));
    world.resourceClaim(inTeam(resourceClaim({}), { app: 'vcluster', release: 'a' }));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, 'tenant_gpu_hours', { tenant: 'tenant-tenant-a-a' })).toBe(1);
  });

  test('S18, L07: volumes and load balancers', () => {
    const world = worldOf(mapped('team-1'));
    world.claim(inTeam(claim({ name: 'v' })));
    world.service(inTeam(service({ name: 's' })));
    const { events } = world.close(START, START + HOUR);
    const tenant = 'tenant-tenant-a-a';
    expect(total(events, 'tenant_storage_gb_hours', { tenant })).toBe(100);
    expect(total(events, 'tenant_lb_hours', { tenant })).toBe(1);
  });

  test('C29: the explanation has the namespace’s labels', () => {
    const world = worldOf(mapped('team-1'));
    world.pod(pod({ ...imported, name: 'p', containers: [{ cpu: '1' }] }));
    const { explanations } = world.close(START, START + HOUR);
    expect(JSON.stringify(explanations)).toContain(
      '"ownedBy":"the labels vcluster.loft.sh/vcluster-name and vcluster.loft.sh/vcluster-namespace of its Namespace"',
    );
  });
});

describe('a namespace changes hands', () => {
  const six = pod({ ...imported, name: 'p', containers: [{ cpu: '6' }] });

  test('C30: its pods are the tenant cluster’s from when it is labelled until it no longer is', () => {
    const world = worldOf();
    world.pod(six);
    world.clusters(found(mapped('team-1')), START + 10 * MINUTE);
    world.clusters(found(), START + 30 * MINUTE);
    expect(coresOf(world)).toEqual({ a: 2, b: 0 });
  });

  test('C36: that the watch reports only after a discovery pass, so that what ran in it before is nobody’s', () => {
    const world = worldOf();
    const created = START + 10 * MINUTE;
    world.clusters(found(), created + 5_000);
    const born = pod({ ...imported, name: 'p', createdAt: created, containers: [{ cpu: '6' }] });
    world.pod(born, created + 1_000);
    const late = mapped('team-1', 'a', created);
    world.namespace(late, created + 7_000);
    world.clusters(found(late), created + 8_000);
    expect(coresOf(world)).toEqual({ a: 5, b: 0 });
  });

  test('C30: from one tenant cluster to another each is billed for its own time', () => {
    const world = worldOf(mapped('team-1'));
    world.pod(six);
    world.clusters(found(mapped('team-1', 'b')), START + 20 * MINUTE);
    expect(coresOf(world)).toEqual({ a: 2, b: 4 });
  });

  test('C30: a new one is the tenant cluster’s since its creation, also where a window was closed meanwhile', () => {
    const world = worldOf();
    world.clusters(found(), START + HOUR - 20 * MINUTE);
    const createdAt = START + HOUR - 10 * MINUTE;
    const fresh = { ...imported, createdAt, containers: [{ cpu: '6' }] };
    world.pod(pod({ ...fresh, name: 'p' }), createdAt);
    const first = world.close(START, START + HOUR).events;
    world.clusters(found(mapped('team-1', 'a', createdAt)), START + HOUR + 1_000);
    const second = world.close(START + HOUR, START + 2 * HOUR).events;
    expect([cpu(first), cpu(second)]).toEqual([0, 7]);
  });

  test('C30: an older one that is labelled counts from then on, and not from its creation', () => {
    const world = worldOf();
    world.pod(six);
    world.clusters(found(mapped('team-1')), START + 50 * MINUTE);
    expect(coresOf(world)).toEqual({ a: 1, b: 0 });
  });

  test('C30: a restart forgets nothing of it', () => {
    const before = worldOf(mapped('team-1'));
    before.clusters(found(mapped('team-1', 'b')), START + 20 * MINUTE);
    const { tenantClusters } = before.observation;
    const world = createWorld();
    world.observation.tenantClusters.restore(
      JSON.parse(JSON.stringify(tenantClusters.snapshot())),
      tenantClusters.observedAt,
    );
    world.pod(six);
    world.clusters(found(mapped('team-1', 'b')), START + 40 * MINUTE);
    expect(coresOf(world)).toEqual({ a: 2, b: 4 });
  });

  test('C31: of one that is deleted the objects are billed to their end', () => {
    const world = worldOf(mapped('team-1'));
    world.pod(six);
    // While it is being deleted it still exists with its labels.
    world.clusters(found(mapped('team-1')), START + 10 * MINUTE);
    world.podGone(six, START + 20 * MINUTE);
    world.clusters(found(), START + 20 * MINUTE + 500);
    expect(coresOf(world)).toEqual({ a: 2, b: 0 });
  });

  test('C31: uninstalling bills what is left in it until it is gone, and nothing that comes later', () => {
    const world = worldOf(mapped('team-1'));
    world.pod(six);
    const left = START + 10 * MINUTE;
    world.clusters([], left);
    const later = { ...imported, createdAt: left + 1, containers: [{ cpu: '60' }] };
    world.pod(pod({ ...later, name: 'later' }), left + 1);
    releaseLeft(world.observation, left + MINUTE);
    world.podGone(six, START + 20 * MINUTE);
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(cpu(events)).toBe(2);
    expect([...diagnostics.unattributed.keys()]).toEqual(['team-1/later']);
    releaseLeft(world.observation, START + HOUR);
    expect(world.observation.tenantClusters.leaving).toEqual([]);
    const { tenantClusters } = world.observation;
    expect(tenantClusters.tenancies('team-1', START + HOUR, START + 2 * HOUR)).toEqual([]);
  });
});
