import { describe, expect, test } from 'vitest';
import { discoverHost } from '../../discovery/testing/host.ts';
import { namespaceObject, workload } from '../../discovery/testing/objects.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { claim, iso, pod, service } from './testing/objects.ts';
import { cpu, createWorld, HOUR, START, total, type World } from './testing/world.ts';

const MINUTE = 60_000;

/** A Namespace that a label gives to a tenant. */
function given(name: string, tenant?: string): RawObject {
  const labels: Record<string, string> =
    tenant === undefined ? {} : { 'capsule.clastix.io/tenant': tenant };
  return namespaceObject(name, { labels, created: iso(START - 24 * HOUR) });
}

/** The result of a discovery pass, besides a tenant cluster in a namespace of its own. */
function found(...namespaces: readonly RawObject[]): readonly TenantCluster[] {
  return discoverHost({
    workloads: [workload('tenant-a', 'a')],
    namespaces,
    environment: {
      CPU_MEMORY_BASIS: 'requests',
      'spec.discovery.sources': 'vcluster,namespaces',
      'spec.discovery.namespaceTenantKeys': 'capsule.clastix.io/tenant',
    },
  }).clusters;
}

function worldOf(...namespaces: readonly RawObject[]): World {
  const world = createWorld();
  world.clusters(found(...namespaces));
  return world;
}

const six = pod({ namespace: 'team-1', labels: {}, name: 'p', containers: [{ cpu: '6' }] });

/** Core-hours of the first hour, by tenant cluster. */
function coresOf(world: World): Readonly<Record<string, number>> {
  const { events } = world.close(START, START + HOUR);
  return {
    x: cpu(events, { tenant_cluster: 'namespaces-x' }),
    y: cpu(events, { tenant_cluster: 'namespaces-y' }),
    a: cpu(events, { tenant_cluster: 'tenant-tenant-a-a' }),
  };
}

describe('what is in a tenant’s namespace is the tenant’s, whatever its labels', () => {
  test.each([
    ['without labels', {}],
    ['that says that a tenant cluster has it', { 'vcluster.loft.sh/managed-by': 'a' }],
    ['that looks like a control plane', { app: 'vcluster', release: 'a' }],
    ['that says it is another’s', { 'capsule.clastix.io/tenant': 'y' }],
  ])('a pod %s', (_, labels) => {
    const world = worldOf(given('team-1', 'x'), given('team-2', 'y'));
    world.pod(pod({ namespace: 'team-1', labels, name: 'p', containers: [{ cpu: '3' }] }));
    expect(coresOf(world)).toEqual({ x: 3, y: 0, a: 0 });
  });

  test('volumes and load balancers', () => {
    const world = worldOf(given('team-1', 'x'));
    const inTeam = (object: RawObject): RawObject => ({
      ...object,
      metadata: { ...Object(object['metadata']), namespace: 'team-1', labels: {} },
    });
    world.claim(inTeam(claim({ name: 'v' })));
    world.service(inTeam(service({ name: 's' })));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, 'tenant_storage_gb_hours', { tenant: 'namespaces-x' })).toBe(100);
    expect(total(events, 'tenant_lb_hours', { tenant: 'namespaces-x' })).toBe(1);
  });

  test('the explanation has the namespace’s label', () => {
    const world = worldOf(given('team-1', 'x'));
    world.pod(six);
    const { explanations } = world.close(START, START + HOUR);
    expect(JSON.stringify(explanations)).toContain(
      '"ownedBy":"the label or annotation of its Namespace that names the tenant"',
    );
  });

  test('a namespace without the label is nobody’s, and nothing in it is missed', () => {
    const world = worldOf(given('team-1'), given('team-2', 'y'));
    world.pod(six);
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(cpu(events)).toBe(0);
    expect([...diagnostics.unattributed.keys()]).toEqual([]);
  });
});

describe('a namespace that moves is billed to the wrong tenant', () => {
  test('each pays for its own time', () => {
    const world = worldOf(given('team-1', 'x'), given('team-2', 'y'));
    world.pod(six);
    world.clusters(found(given('team-1', 'y'), given('team-2', 'y')), START + 20 * MINUTE);
    expect(coresOf(world)).toEqual({ x: 2, y: 4, a: 0 });
  });

  test('one that loses its label while its tenant has others is nobody’s from then on', () => {
    const world = worldOf(given('team-1', 'x'), given('team-2', 'x'));
    world.pod(six);
    world.clusters(found(given('team-1'), given('team-2', 'x')), START + 20 * MINUTE);
    expect(coresOf(world)).toEqual({ x: 2, y: 0, a: 0 });
  });

  test('one that loses its label is nobody’s from then on, though it was its tenant’s last', () => {
    const world = worldOf(given('team-1', 'x'));
    world.pod(six);
    world.clusters(found(given('team-1')), START + 20 * MINUTE);
    expect(coresOf(world)).toEqual({ x: 2, y: 0, a: 0 });
    expect(world.observation.tenantClusters.leaving).toEqual([]);
  });

  test('one that moves between restarts away from a tenant that has no other is billed once', () => {
    const before = worldOf(given('team-1', 'x'));
    const { tenantClusters } = before.observation;
    const world = createWorld();
    world.observation.tenantClusters.restore(
      JSON.parse(JSON.stringify(tenantClusters.snapshot())),
      tenantClusters.observedAt,
    );
    world.pod(six);
    world.clusters(found(given('team-1', 'y')), START + 40 * MINUTE);
    const { x = 0, y = 0 } = coresOf(world);
    expect(y).toBe(2);
    expect(x + y).toBeLessThanOrEqual(6);
  });

  test('one that is labelled later counts from then on, and not from its creation', () => {
    const world = worldOf(given('team-1'));
    world.pod(six);
    world.clusters(found(given('team-1', 'x')), START + 50 * MINUTE);
    expect(coresOf(world)).toEqual({ x: 1, y: 0, a: 0 });
  });

  test('one that a tenant cluster takes over is billed once', () => {
    const world = worldOf(given('tenant-b', 'x'));
    const inB = pod({ namespace: 'tenant-b', labels: {}, name: 'p', containers: [{ cpu: '6' }] });
    world.pod(inB);
    const both = discoverHost({
      workloads: [workload('tenant-a', 'a'), workload('tenant-b', 'b')],
      namespaces: [given('tenant-b', 'x'), given('team-1', 'x')],
      environment: {
        CPU_MEMORY_BASIS: 'requests',
        'spec.discovery.sources': 'vcluster,namespaces',
        'spec.discovery.namespaceTenantKeys': 'capsule.clastix.io/tenant',
      },
    }).clusters;
    world.clusters(found(given('tenant-b', 'x')), START + 19 * MINUTE);
    world.clusters(both, START + 20 * MINUTE);
    const { events } = world.close(START, START + HOUR);
    expect(cpu(events, { tenant_cluster: 'namespaces-x' })).toBe(2);
    expect(cpu(events, { tenant_cluster: 'tenant-tenant-b-b' })).toBe(4);
  });

  test('one with a tenant cluster that is found late is not billed a second time', () => {
    const world = worldOf(given('team-1', 'x'));
    world.pod(six);
    expect(coresOf(world)).toEqual({ x: 6, y: 0, a: 0 });
    // No discovery pass has succeeded for more than a window.
    const { clusters } = discoverHost({
      workloads: [workload('team-1', 'b', { created: iso(START + 10 * MINUTE) })],
      namespaces: [given('team-1', 'x')],
      environment: {
        CPU_MEMORY_BASIS: 'requests',
        'spec.discovery.sources': 'vcluster,namespaces',
        'spec.discovery.namespaceTenantKeys': 'capsule.clastix.io/tenant',
      },
    });
    world.clusters(clusters, START + HOUR + 20 * MINUTE);
    const { events } = world.close(START + HOUR, START + 2 * HOUR);
    expect(cpu(events, { tenant_cluster: 'namespaces-x' })).toBe(2);
    expect(cpu(events)).toBe(6);
  });

  test('a restart forgets nothing of it', () => {
    const before = worldOf(given('team-1', 'x'), given('team-2', 'y'));
    before.clusters(found(given('team-1', 'y'), given('team-2', 'y')), START + 20 * MINUTE);
    const { tenantClusters } = before.observation;
    const world = createWorld();
    world.observation.tenantClusters.restore(
      JSON.parse(JSON.stringify(tenantClusters.snapshot())),
      tenantClusters.observedAt,
    );
    world.pod(six);
    world.clusters(found(given('team-1', 'y'), given('team-2', 'y')), START + 40 * MINUTE);
    expect(coresOf(world)).toEqual({ x: 2, y: 4, a: 0 });
  });
});

describe('a tenant whose last namespace is deleted', () => {
  /** Kubernetes deletes a Namespace only after everything in it. */
  const complete = given('team-1', 'x');
  const ending: RawObject = {
    ...complete,
    metadata: { ...Object(complete['metadata']), deletionTimestamp: iso(START + 10 * MINUTE) },
  };

  test('is billed until what was in it is gone, and then leaves', () => {
    const world = worldOf(complete, given('team-2', 'y'));
    world.pod(six);
    world.clusters(found(ending, given('team-2', 'y')), START + 10 * MINUTE);
    world.podGone(six, START + 20 * MINUTE);
    world.clusters(found(given('team-2', 'y')), START + 21 * MINUTE);
    expect(coresOf(world)).toEqual({ x: 2, y: 0, a: 0 });
    expect(world.observation.tenantClusters.leaving).toEqual([]);
  });

  test('does not pay for a namespace of the same name that is another’s', () => {
    const world = worldOf(complete, given('team-2', 'y'));
    world.pod(six);
    world.clusters(found(ending, given('team-2', 'y')), START + 10 * MINUTE);
    world.podGone(six, START + 20 * MINUTE);
    world.clusters(found(given('team-2', 'y')), START + 21 * MINUTE);
    world.clusters(found(given('team-1', 'y'), given('team-2', 'y')), START + 30 * MINUTE);
    const again = { namespace: 'team-1', labels: {}, createdAt: START + 40 * MINUTE };
    world.pod(pod({ ...again, name: 'q', containers: [{ cpu: '3' }] }), START + 40 * MINUTE);
    expect(coresOf(world)).toEqual({ x: 2, y: 1, a: 0 });
  });
});
