import { describe, expect, test } from 'vitest';
import {
  claim,
  cluster,
  CONTROL_PLANE,
  SYNCED_LABELS,
  service,
  workload,
} from './testing/objects.ts';
import { createWorld, hour, HOUR, START, total, type World } from './testing/world.ts';

describe('storage', () => {
  test.each([
    {
      id: 'S01: the class is the SKU',
      object: claim({ name: 'v', capacity: '100Gi', storageClass: 'fast-ssd' }),
      want: 100,
      sku: 'fast-ssd',
    },
    {
      id: 'S03: a claim that waits for a volume',
      object: claim({ name: 'v', phase: 'Pending' }),
      want: 0,
    },
    {
      id: 'S04: a claim that lost its volume',
      object: claim({ name: 'v', phase: 'Lost' }),
      want: 0,
    },
    {
      id: 'S08: a claim that has the label of a control plane',
      object: claim({ name: 'v', request: '10Gi', labels: { ...SYNCED_LABELS, app: 'vcluster' } }),
      want: 10,
      sku: 'default',
    },
    {
      id: 'S09: the volume’s size, not the claim’s',
      object: claim({ name: 'v', request: '1Gi', capacity: '100Gi' }),
      want: 100,
      sku: 'default',
    },
    {
      id: 'S10: an enlargement in progress',
      object: claim({
        name: 'v',
        request: '200Gi',
        capacity: '100Gi',
        status: {
          allocatedResources: { storage: '200Gi' },
          allocatedResourceStatuses: { storage: 'ControllerResizeInProgress' },
        },
      }),
      want: 100,
      sku: 'default',
    },
    {
      id: 'S13: a fraction of a unit',
      object: claim({ name: 'v', request: '1.5Ti' }),
      want: 1536,
      sku: 'default',
    },
    {
      id: 'S15: a claim that is being deleted',
      object: claim({
        name: 'v',
        metadata: {
          deletionTimestamp: '2026-03-01T12:00:00Z',
          finalizers: ['kubernetes.io/pvc-protection'],
        },
      }),
      want: 100,
      sku: 'default',
    },
    {
      id: 'control plane claim',
      object: claim({ name: 'data-a-0', labels: CONTROL_PLANE }),
      want: 0,
    },
  ])('$id', ({ object, want, sku }) => {
    const events = hour((world) => world.claim(object));
    expect(total(events, 'tenant_storage_gb_hours', sku === undefined ? {} : { sku })).toBe(want);
  });

  test('S16: a paused tenant cluster keeps its disks', () => {
    const events = hour((world) => {
      world.workload(workload({ name: 'a', ready: 0, annotations: { 'loft.sh/paused': 'true' } }));
      world.claim(claim({ name: 'v' }));
    });
    expect(total(events, 'tenant_storage_gb_hours')).toBe(100);
    expect(events[0]?.properties).toEqual({ volumes: 1 });
  });
});

test('S17: volumes and load balancers outlive the tenant cluster that is uninstalled', () => {
  const events = hour((world) => {
    world.claim(claim({ name: 'v' }));
    world.service(service({ name: 's' }));
    world.clusters([], START + HOUR / 2);
  });
  expect(total(events, 'tenant_storage_gb_hours')).toBe(100);
  expect(total(events, 'tenant_lb_hours')).toBe(1);
});

describe('load balancers', () => {
  test.each([
    { id: 'L02 ClusterIP', object: service({ name: 's', type: 'ClusterIP' }), want: 0 },
    { id: 'L02 NodePort', object: service({ name: 's', type: 'NodePort' }), want: 0 },
    {
      id: 'L02 ExternalName',
      object: service({
        name: 's',
        type: 'ExternalName',
        spec: { externalName: 'db.example.com' },
      }),
      want: 0,
    },
    {
      id: 'L02 headless',
      object: service({ name: 's', type: 'ClusterIP', spec: { clusterIP: 'None' } }),
      want: 0,
    },
    {
      id: 'L03: several ports and addresses are one',
      object: service({
        name: 's',
        ports: 3,
        ingress: [{ ip: '192.0.2.1' }, { ip: '2001:db8::1' }],
      }),
      want: 1,
    },
    { id: 'L04: one without an address', object: service({ name: 's', ingress: [] }), want: 0 },
    {
      id: 'L05: the Service of a control plane',
      object: service({
        name: 'a',
        labels: { ...CONTROL_PLANE, 'vcluster.loft.sh/service': 'true' },
      }),
      want: 0,
    },
    {
      id: 'hostname',
      object: service({ name: 's', ingress: [{ hostname: 'lb.example.com' }] }),
      want: 1,
    },
  ])('$id', ({ object, want }) => {
    const events = hour((world) => world.service(object));
    expect(total(events, 'tenant_lb_hours')).toBe(want);
  });

  test('L06: two tenant clusters in one namespace, one load balancer each', () => {
    const events = hour((world) => {
      world.clusters([cluster('a'), cluster('b')]);
      world.service(service({ name: 's' }));
      world.service(service({ name: 't', labels: { 'vcluster.loft.sh/managed-by': 'b' } }));
    });
    expect(total(events, 'tenant_lb_hours', { tenant: 'tenant-tenant-a-a' })).toBe(1);
    expect(total(events, 'tenant_lb_hours', { tenant: 'tenant-tenant-a-b' })).toBe(1);
  });
});

describe('instance hours', () => {
  test.each([
    {
      id: 'I01: replicas of one StatefulSet are one',
      objects: [workload({ name: 'a', ready: 3 })],
      want: 1,
    },
    {
      id: 'I02: a StatefulSet and a Deployment of one name are one',
      objects: [workload({ name: 'a' }), workload({ name: 'a', kind: 'Deployment' })],
      want: 1,
    },
    {
      id: 'I03: a Deployment alone',
      objects: [workload({ name: 'a', kind: 'Deployment' })],
      want: 1,
    },
    {
      id: 'I04: a paused one',
      objects: [workload({ name: 'a', ready: 0, annotations: { 'loft.sh/paused': 'true' } })],
      want: 0,
    },
    {
      id: 'I04 while a replica of it is still ready',
      objects: [workload({ name: 'a', annotations: { 'loft.sh/paused': 'true' } })],
      want: 0,
    },
    { id: 'not ready', objects: [workload({ name: 'a', ready: 0 })], want: 0 },
  ])('$id', ({ objects, want }) => {
    const events = hour((world) => {
      for (const object of objects) world.workload(object);
    });
    expect(events.map(({ metric, quantity }) => [metric, Number(quantity)])).toEqual(
      want === 0 ? [] : [['tenant_instance_hours', want]],
    );
  });

  test('clusters of one customer differ by their dimension', () => {
    const events = hour((world) => {
      world.clusters([
        cluster('x', {}, { tenant: 'project-team1', project: 'team1' }),
        cluster('y', {}, { tenant: 'project-team1', project: 'team1' }),
      ]);
      world.workload(workload({ name: 'x' }));
      world.workload(workload({ name: 'y' }));
    });
    expect(total(events, 'tenant_instance_hours', { tenant: 'project-team1' })).toBe(2);
    expect(new Set(events.map((event) => event.dimensions?.['tenant_cluster'])).size).toBe(2);
    expect(events.every((event) => event.project === 'team1')).toBe(true);
  });
});

describe('METER_BY_NAMESPACE splits by the namespace inside the tenant cluster', () => {
  const within = (namespace: string): Readonly<Record<string, string>> => ({
    ...SYNCED_LABELS,
    'vcluster.loft.sh/namespace': namespace,
  });
  const build = (meterByNamespace: boolean) => (world: World) => {
    world.clusters([cluster('a', { meterByNamespace, meterControlPlane: true })]);
    world.claim(claim({ name: 'v', capacity: '100Gi', labels: within('ml') }));
    world.claim(claim({ name: 'w', capacity: '50Gi', labels: within('web') }));
    world.claim(claim({ name: 'data-a-0', capacity: '10Gi', labels: CONTROL_PLANE }));
    world.service(service({ name: 's', labels: within('ml') }));
    world.service(service({ name: 't', labels: within('web') }));
    world.workload(workload({ name: 'a' }));
  };
  const namespaced = { storage: 'tenant_storage_gb_hours', balancers: 'tenant_lb_hours' };

  test('volumes and load balancers, but neither instances nor what the syncer did not bring', () => {
    const events = hour(build(true));
    for (const [namespace, gib] of Object.entries({ ml: 100, web: 50 })) {
      expect(total(events, namespaced.storage, { namespace })).toBe(gib);
      expect(total(events, namespaced.balancers, { namespace })).toBe(1);
    }
    const others = events.filter((event) => event.dimensions?.['namespace'] === undefined);
    expect(others.map(({ metric, quantity }) => [metric, quantity])).toEqual([
      ['tenant_storage_gb_hours', '10'],
      ['tenant_instance_hours', '1'],
    ]);
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  });

  test('in one sum otherwise', () => {
    const events = hour(build(false));
    expect(total(events, namespaced.storage)).toBe(160);
    expect(total(events, namespaced.balancers)).toBe(2);
    expect(events.some((event) => 'namespace' in (event.dimensions ?? {}))).toBe(false);
  });

  test('inside a tenant cluster it is the namespace of the object', () => {
    const world = createWorld({ inside: 'tenant-tenant-a-a' });
    world.clusters([cluster('a', { meterByNamespace: true })]);
    world.claim(claim({ name: 'v', capacity: '100Gi', labels: within('spoofed') }));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, namespaced.storage, { namespace: 'tenant-a' })).toBe(100);
  });

  test('the setting splits the hour at its change', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.claim(claim({ name: 'v', capacity: '100Gi', labels: within('ml') }));
    world.clusters([cluster('a', { meterByNamespace: true })], START + HOUR / 4);
    const { events } = world.close(START, START + HOUR);
    expect(total(events, namespaced.storage, { namespace: 'ml' })).toBe(75);
    expect(total(events, namespaced.storage)).toBe(100);
  });
});
