import { describe, expect, test } from 'vitest';
import type { RawObject } from '../kubernetes/source.ts';
import type { UsageEvent } from '../usage/event.ts';
import { claim, cluster, node, OWN_LABELS, pod, service, workload } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type World } from './testing/world.ts';

/** Acceptance cases for shared nodes, storage, load balancers and instances; one hour at a constant state. */

const CONTROL_PLANE = { app: 'vcluster', release: 'a' };

function hour(build: (world: World) => void, options = {}): UsageEvent[] {
  const world = createWorld(options);
  world.node(node('n7', { 'karpenter.sh/capacity-type': 'on-demand' }));
  world.clusters([cluster('a')]);
  build(world);
  return world.close(START, START + HOUR).events;
}

const cpu = (events: readonly UsageEvent[], match = {}) =>
  total(events, 'tenant_cpu_core_hours', match);
const memory = (events: readonly UsageEvent[], match = {}) =>
  total(events, 'tenant_memory_gb_hours', match);

describe('CPU and memory by requests', () => {
  const sidecar = (requests: Record<string, string>): RawObject => ({
    name: 'side',
    restartPolicy: 'Always',
    resources: { requests },
  });
  const init = (requests: Record<string, string>): RawObject => ({
    name: 'init',
    resources: { requests },
  });
  const resizing = {
    containerStatuses: [
      {
        name: 'c0',
        state: { running: { startedAt: '2026-03-01T00:00:00Z' } },
        allocatedResources: { cpu: '2' },
        resources: { requests: { cpu: '2' } },
      },
    ],
  };
  const infeasible = {
    ...resizing,
    conditions: [{ type: 'PodResizePending', status: 'True', reason: 'Infeasible' }],
  };

  test.each([
    {
      id: 'C04',
      pods: [
        pod({
          name: 'p',
          containers: [{ cpu: '500m', memory: '1Gi' }],
          initContainers: [
            sidecar({ cpu: '100m', memory: '128Mi' }),
            init({ cpu: '2', memory: '256Mi' }),
          ],
          spec: { overhead: { cpu: '250m', memory: '120Mi' } },
        }),
      ],
      want: [2.35, 1.2421875],
      reason: 'max(0.6, 2+0.1)+0.25; max(1152Mi,384Mi)+120Mi',
    },
    {
      id: 'C06',
      pods: [
        pod({
          name: 'p',
          containers: [
            { cpu: '1', memory: '2Gi' },
            { cpu: '1', memory: '1Gi' },
          ],
          spec: {
            resources: { requests: { cpu: '4', memory: '8Gi' } },
            overhead: { cpu: '250m' },
          },
        }),
      ],
      want: [4.25, 8],
      reason: 'pod-level replaces, overhead adds',
    },
    {
      id: 'C07',
      pods: [pod({ name: 'p', containers: [{ cpu: '4' }], status: resizing })],
      want: [4, 0],
      reason: 'a resize in progress holds the larger',
    },
    {
      id: 'C08',
      pods: [pod({ name: 'p', containers: [{ cpu: '4' }], status: infeasible })],
      want: [2, 0],
      reason: 'an infeasible wish holds nothing',
    },
    {
      id: 'C13',
      pods: [pod({ name: 'p' })],
      want: [0, 0],
      reason: 'no requests',
    },
    {
      id: 'C14',
      pods: [
        pod({
          name: 's',
          phase: 'Succeeded',
          finishedAt: START - HOUR,
          containers: [{ cpu: '4' }],
        }),
        pod({ name: 'f', phase: 'Failed', finishedAt: START - HOUR, containers: [{ cpu: '4' }] }),
        pod({
          name: 'u',
          phase: 'Pending',
          node: null,
          startedAt: null,
          containers: [{ cpu: '4' }],
        }),
      ],
      want: [0, 0],
      reason: 'terminal and unscheduled pods hold nothing',
    },
    {
      id: 'C21',
      pods: ['129e6', '129M', '128974848', '123Mi', '128974848000m'].map((size, index) =>
        pod({ name: `p${index}`, containers: [{ memory: size }] }),
      ),
      want: [0, 0.600632787],
      reason: 'quantity grammar',
    },
    {
      id: 'C22',
      pods: ['0.1', '100m', '1e-1', '.1'].map((size, index) =>
        pod({ name: `p${index}`, containers: [{ cpu: size }] }),
      ),
      want: [0.4, 0],
      reason: 'quantity grammar',
    },
    {
      id: 'C23',
      pods: [pod({ name: 'p', containers: [{ cpu: '1E-3', memory: '1.5Gi' }] })],
      want: [0.001, 1.5],
      reason: 'quantity grammar',
    },
    {
      id: 'a pod that waits for its image costs nothing',
      pods: [pod({ name: 'p', phase: 'Pending', startedAt: null, containers: [{ cpu: '1' }] })],
      want: [0, 0],
      reason: 'podLifetime running begins with the first container',
    },
    {
      id: 'a crash-looping pod is billed while it waits to start again',
      pods: [
        pod({
          name: 'p',
          containers: [{ cpu: '1' }],
          status: {
            containerStatuses: [
              {
                name: 'c0',
                state: { waiting: { reason: 'CrashLoopBackOff' } },
                lastState: {
                  terminated: {
                    startedAt: '2026-03-01T11:00:00Z',
                    finishedAt: '2026-03-01T11:30:00Z',
                  },
                },
              },
            ],
          },
        }),
      ],
      want: [1, 0],
      reason: 'it holds its requests',
    },
  ])('$id', ({ pods, want }) => {
    const events = hour((world) => {
      for (const object of pods) world.pod(object);
    });
    expect([cpu(events), memory(events)]).toEqual(want);
  });

  test('C26: spot and on-demand are charged apart', () => {
    const events = hour((world) => {
      world.node(node('spot', { 'karpenter.sh/capacity-type': 'spot' }));
      world.pod(pod({ name: 's', node: 'spot', containers: [{ cpu: '1' }] }));
      world.pod(pod({ name: 'o', containers: [{ cpu: '2' }] }));
    });
    expect(cpu(events, { capacity_type: 'spot' })).toBe(1);
    expect(cpu(events, { capacity_type: 'on-demand' })).toBe(2);
  });

  test('C15, C16, C17: control plane pods are billed only when asked', () => {
    const build = (meterControlPlane: boolean) => (world: World) => {
      world.clusters([cluster('a', { meterControlPlane })]);
      world.pod(pod({ name: 'cp', labels: CONTROL_PLANE, containers: [{ cpu: '400m' }] }));
      world.pod(
        pod({
          name: 'etcd',
          labels: { ...CONTROL_PLANE, app: 'vcluster-etcd' },
          containers: [{ cpu: '200m' }],
        }),
      );
      world.pod(pod({ name: 'p', containers: [{ cpu: '100m' }] }));
    };
    expect(cpu(hour(build(false)))).toBe(0.1);
    expect(cpu(hour(build(true)))).toBe(0.7);
  });

  test('C18: a tenant cannot make a pod free with the control plane label', () => {
    const events = hour((world) => {
      const labels = { ...OWN_LABELS, app: 'vcluster' };
      world.pod(pod({ name: 'p', labels, containers: [{ cpu: '300m' }] }));
    });
    expect(cpu(events)).toBe(0.3);
  });

  test('two tenant clusters in one namespace are charged for their own pods, and for nothing unattributed', () => {
    const world = createWorld();
    world.clusters([cluster('a'), cluster('b')]);
    world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    const labels = { 'vcluster.loft.sh/managed-by': 'b' };
    world.pod(pod({ name: 'q', labels, containers: [{ cpu: '2' }] }));
    world.pod(pod({ name: 'stray', labels: {}, containers: [{ cpu: '4' }] }));
    const { events, findings } = world.close(START, START + HOUR);
    expect(cpu(events, { tenant: 'tenant-tenant-a-a' })).toBe(1);
    expect(cpu(events, { tenant: 'tenant-tenant-a-b' })).toBe(2);
    expect(cpu(events)).toBe(3);
    expect([...findings.unattributed]).toEqual(['tenant-a/stray']);
  });

  test('METER_BY_NAMESPACE splits by the namespace inside the tenant cluster', () => {
    const build = (meterByNamespace: boolean) => (world: World) => {
      world.clusters([cluster('a', { meterByNamespace })]);
      for (const [index, namespace] of ['ml', 'web'].entries()) {
        const labels = { ...OWN_LABELS, 'vcluster.loft.sh/namespace': namespace };
        world.pod(pod({ name: namespace, labels, containers: [{ cpu: String(index + 1) }] }));
      }
    };
    const split = hour(build(true));
    expect([cpu(split, { namespace: 'ml' }), cpu(split, { namespace: 'web' })]).toEqual([1, 2]);
    const whole = hour(build(false));
    expect(cpu(whole)).toBe(3);
    expect(whole.every((event) => event.dimensions?.['namespace'] === undefined)).toBe(true);
  });

  test('podLifetime scheduled bills from binding', () => {
    const build = (podLifetime: 'running' | 'scheduled') => (world: World) => {
      world.clusters([cluster('a', { podLifetime })]);
      world.pod(pod({ name: 'p', phase: 'Pending', startedAt: null, containers: [{ cpu: '1' }] }));
    };
    expect(cpu(hour(build('running')))).toBe(0);
    expect(cpu(hour(build('scheduled')))).toBe(1);
  });

  test('an excluded tenant cluster is not metered', () => {
    const events = hour((world) => {
      world.clusters([cluster('a', {}, { excluded: true })]);
      world.workload(workload({ name: 'a' }));
      world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    });
    expect(events).toEqual([]);
  });
});

describe('CPU and memory by usage', () => {
  const byUsage = (basis: 'usage' | 'max', build: (world: World) => void): UsageEvent[] =>
    hour((world) => {
      world.clusters([cluster('a', { cpuMemoryBasis: basis })]);
      build(world);
    });

  test.each([
    { id: 'C01', usage: ['373456789n', '1536Mi'], want: [0.373456789, 1.5] },
    { id: 'C02', usage: ['123457u', '524288001'], want: [0.123457, 0.488281251] },
  ] as const)('$id', ({ usage, want }) => {
    const events = byUsage('usage', (world) => {
      world.pod(pod({ name: 'p' }));
      world.sample({ p: usage }, START);
    });
    expect([cpu(events), memory(events)]).toEqual(want);
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

  test('C20: a pod without a sample is unknown, and does not hold back the others', () => {
    const world = createWorld();
    world.clusters([cluster('a', { cpuMemoryBasis: 'usage' })]);
    world.pod(pod({ name: 'p' }));
    world.pod(pod({ name: 'q' }));
    world.sample({ p: ['1', '1Gi'] }, START);
    const { events, findings } = world.close(START, START + HOUR);
    expect(cpu(events)).toBe(1);
    expect(findings.unsampled.get('tenant-tenant-a-a')).toEqual({
      podMs: HOUR,
      from: START,
      to: START + HOUR,
    });
  });

  test('a sample holds for two intervals, not for ever, and never past the pod', () => {
    const world = createWorld({ settings: { sampleHoldMs: 600_000 } });
    world.clusters([cluster('a', { cpuMemoryBasis: 'usage' })]);
    world.pod(pod({ name: 'p' }));
    world.pod(pod({ name: 'q', phase: 'Succeeded', finishedAt: START + 60_000 }), START + 61_000);
    world.sample({ p: ['6', '0'], q: ['6', '0'] }, START);
    const { events } = world.close(START, START + HOUR);
    expect(cpu(events)).toBe(1.1);
  });

  test('the capacity type of the event is the one that held while the pod ran', () => {
    const events = byUsage('usage', (world) => {
      world.pod(pod({ name: 'p' }));
      world.sample({ p: ['1', '0'] }, START);
      world.node(node('n7', { 'karpenter.sh/capacity-type': 'spot' }), START + HOUR / 4);
    });
    expect(cpu(events, { capacity_type: 'on-demand' })).toBe(0.25);
    expect(cpu(events, { capacity_type: 'spot' })).toBe(0.75);
  });
});

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
      object: claim({ name: 'v', request: '200Gi', capacity: '100Gi' }),
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
    { id: 'L02', object: service({ name: 's', type: 'ClusterIP' }), want: 0 },
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
    { id: 'not ready', objects: [workload({ name: 'a', ready: 0 })], want: 0 },
  ])('$id', ({ objects, want }) => {
    const events = hour((world) => {
      for (const object of objects) world.workload(object);
    });
    expect(total(events, 'tenant_instance_hours')).toBe(want);
  });

  test('I09, I10: clusters of one customer are told apart by their dimension', () => {
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

  test('ZONE fills in where the node says nothing', () => {
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

describe('windows', () => {
  test('W02: a minute of eight units has nine decimals', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.pod(pod({ name: 'p', containers: [{ cpu: '8' }] }));
    const { events } = world.close(START, START + 60_000);
    expect(events[0]?.quantity).toBe('0.133333333');
  });

  test('W03, W04: measuring a window again gives the same ids, whatever the quantity', () => {
    const build = (size: string) => (world: World) => {
      world.pod(pod({ name: 'p', containers: [{ cpu: size, memory: '1Gi' }] }));
    };
    const ids = (events: readonly UsageEvent[]) => events.map((event) => event.id);
    expect(ids(hour(build('1')))).toEqual(ids(hour(build('2'))));
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

  test('W15: a tenant cluster deleted in mid-window is charged up to then', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const object = workload({ name: 'a' });
    world.workload(object);
    const view = { uid: 'uid-StatefulSet-a', namespace: 'tenant-a', name: 'a' };
    const at = START + 30_000;
    const labels = { app: 'vcluster', release: 'a' };
    world.observation.workloads.deleted(
      { ...view, labels, createdAt: 0, ready: true },
      { at, knownUntil: at, late: false },
    );
    world.clusters([], START + 45_000);
    const { events } = world.close(START, START + 60_000);
    expect(total(events, 'tenant_instance_hours')).toBe(0.008333333);
  });
});
