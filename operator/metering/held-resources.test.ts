import { describe, expect, test } from 'vitest';
import { claim, cluster, CONTROL_PLANE, OWN_LABELS, service, workload } from './testing/objects.ts';
import { hour, total } from './testing/world.ts';

describe('storage', () => {
  test.each([
    {
      id: 'S01',
      object: claim({ name: 'v', capacity: '100Gi', storageClass: 'fast-ssd' }),
      want: 100,
      sku: 'fast-ssd',
    },
    { id: 'S03', object: claim({ name: 'v', phase: 'Pending' }), want: 0 },
    { id: 'S04', object: claim({ name: 'v', phase: 'Lost' }), want: 0 },
    {
      id: 'S08',
      object: claim({ name: 'v', request: '10Gi', labels: { ...OWN_LABELS, app: 'vcluster' } }),
      want: 10,
      sku: 'default',
    },
    {
      id: 'S09',
      object: claim({ name: 'v', request: '1Gi', capacity: '100Gi' }),
      want: 100,
      sku: 'default',
    },
    {
      id: 'S10',
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
    { id: 'S13', object: claim({ name: 'v', request: '1.5Ti' }), want: 1536, sku: 'default' },
    {
      id: 'S15',
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
      id: 'L03',
      object: service({
        name: 's',
        ports: 3,
        ingress: [{ ip: '192.0.2.1' }, { ip: '2001:db8::1' }],
      }),
      want: 1,
    },
    { id: 'L04', object: service({ name: 's', ingress: [] }), want: 0 },
    {
      id: 'L05',
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
    { id: 'I01', objects: [workload({ name: 'a', ready: 3 })], want: 1 },
    {
      id: 'I02',
      objects: [workload({ name: 'a' }), workload({ name: 'a', kind: 'Deployment' })],
      want: 1,
    },
    { id: 'I03', objects: [workload({ name: 'a', kind: 'Deployment' })], want: 1 },
    {
      id: 'I04',
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

  test('clusters of one customer are told apart by their dimension', () => {
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
