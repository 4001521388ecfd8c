import { describe, expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { UsageEvent } from '../usage/event.ts';
import {
  A10G,
  gpuNode,
  H100,
  N1,
  N3,
  N4,
  N5,
  N6,
  N7,
  type NodeFixture,
  variant,
} from './testing/gpu-nodes.ts';
import { cluster, iso, pod, type PodFixture } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type WorldOptions } from './testing/world.ts';

const MANAGED_BY = 'vcluster.loft.sh/managed-by';
const CLUSTER = 'vcluster.loft.sh/cluster';
const GPU = 'nvidia.com/gpu';
const UNREACHABLE = 'node.kubernetes.io/unreachable';

interface Case extends WorldOptions {
  readonly nodes: readonly NodeFixture[];
  readonly pods?: readonly PodFixture[];
  readonly clusters?: readonly TenantCluster[];
}

function closed({ nodes, pods = [], clusters = [cluster('a')], ...options }: Case) {
  const world = createWorld(options);
  for (const one of nodes) world.node(gpuNode(one));
  world.clusters(clusters);
  for (const one of pods) world.pod(pod(one));
  return world.close(START, START + HOUR);
}

const hourOf = (given: Case): UsageEvent[] => closed(given).events;

const METRICS = {
  node: 'tenant_private_node_hours',
  gpu: 'tenant_gpu_hours',
  down: 'tenant_gpu_downtime_hours',
  cpu: 'tenant_cpu_core_hours',
  mem: 'tenant_memory_gb_hours',
};

/** Node hours, GPU hours, downtime, core-hours and GiB-hours. */
function sums(
  events: readonly UsageEvent[],
  match: Readonly<Record<string, string>> = {},
): number[] {
  return Object.values(METRICS).map((metric) => total(events, metric, match));
}

function only(events: readonly UsageEvent[], metric: keyof typeof METRICS): UsageEvent {
  const [event, ...others] = events.filter((one) => one.metric === METRICS[metric]);
  expect(others).toEqual([]);
  if (event === undefined) throw new Error(`no ${metric} event`);
  return event;
}

const own = (fixture: NodeFixture, label = MANAGED_BY, value = 'tenant-a'): NodeFixture =>
  variant(fixture, { labels: { [label]: value } });

const WHOLE = [1, 8, 0, 192, 2048];

test('N01: a dedicated node is billed whole, with all that prices it', () => {
  const events = hourOf({ nodes: [own(N1)] });
  expect(sums(events, { billing_mode: 'dedicated_node' })).toEqual(WHOLE);
  const dimensions = {
    tenant_cluster: 'tenant-tenant-a-a',
    billing_mode: 'dedicated_node',
    capacity_type: 'on-demand',
    node: 'n1',
  };
  expect(only(events, 'node')).toMatchObject({
    sku: 'p5.48xlarge',
    resource_id: 'n1',
    dimensions: { ...dimensions, instance_type: 'p5.48xlarge' },
  });
  expect(only(events, 'gpu')).toMatchObject({
    sku: H100,
    resource_id: 'n1',
    dimensions: { ...dimensions, gpu_type: H100, gpu_profile: 'full' },
    properties: { gpu_devices: 8, physical_gpus: 8 },
  });
  expect(only(events, 'cpu')).toMatchObject({ resource_id: 'n1', dimensions });
});

describe('a node is found by every label that dedicates it', () => {
  test.each<[string, NodeFixture, WorldOptions]>([
    ['N02', own(N1, CLUSTER), {}],
    ['N03 managed-by', own(N1, MANAGED_BY, 'a'), {}],
    ['N03 cluster', own(N1, CLUSTER, 'a'), {}],
    ['N04', own(own(N1), CLUSTER, 'a'), {}],
    [
      'N05',
      own(N1, 'dedicated-to', 'a'),
      { nodeSettings: { dedicatedNodeLabel: 'dedicated-to=%s' } },
    ],
  ])('%s', (_id, node, options) => {
    expect(sums(hourOf({ nodes: [node], ...options }))).toEqual(WHOLE);
  });

  test('the namespace without its prefix is enough, whatever the cluster is called', () => {
    for (const namespace of ['tenant-x', 'vcluster-x', 'vc-x']) {
      const clusters = [cluster('other', {}, { namespace })];
      expect(sums(hourOf({ nodes: [own(N1, CLUSTER, 'x')], clusters }))).toEqual(WHOLE);
    }
  });

  test('a node that nobody named is nobody’s', () => {
    expect(sums(hourOf({ nodes: [N1, own(N7, MANAGED_BY, 'b')] }))).toEqual([0, 0, 0, 0, 0]);
  });
});

describe('one node, one tenant', () => {
  const first = cluster('a');
  const second = cluster('b', {}, { namespace: 'a' });
  const ownersOf = (events: readonly UsageEvent[]) => [
    ...new Set(events.filter(({ metric }) => metric === METRICS.node).map(({ tenant }) => tenant)),
  ];

  test('the cluster’s name beats another’s namespace, which accident 24 billed to both', () => {
    const events = hourOf({ nodes: [own(N1, MANAGED_BY, 'a')], clusters: [first, second] });
    expect(ownersOf(events)).toEqual([first.tenant]);
    expect(sums(events)).toEqual(WHOLE);
  });

  test('the exact namespace beats the one without its prefix', () => {
    const exact = cluster('x', {}, { namespace: 'a' });
    const stripped = cluster('y', {}, { namespace: 'tenant-a' });
    const events = hourOf({ nodes: [own(N1, MANAGED_BY, 'a')], clusters: [exact, stripped] });
    expect(ownersOf(events)).toEqual([exact.tenant]);
  });

  test('VCLUSTER_NODE_LABEL beats them all', () => {
    const events = hourOf({
      nodes: [own(own(N1, MANAGED_BY, 'a'), 'dedicated-to', 'b')],
      clusters: [first, second],
      nodeSettings: { dedicatedNodeLabel: 'dedicated-to=%s' },
    });
    expect(ownersOf(events)).toEqual([second.tenant]);
  });

  test('an equal claim of two is billed to neither, listed, and its pods are billed as shared', () => {
    const { events, findings } = closed({
      nodes: [own(N1)],
      clusters: [first, cluster('c')],
      pods: [{ name: 'p', node: 'n1', containers: [{ [GPU]: 2 }] }],
    });
    expect(sums(events)).toEqual([0, 2, 0, 0, 0]);
    expect([...findings.contested]).toEqual([['n1', [first.id, 'tenant-tenant-a-c']]]);
  });

  test('a node whose label changes belongs to each for its time', () => {
    const world = createWorld();
    const other = cluster('b', {}, { namespace: 'tenant-b' });
    world.clusters([first, other]);
    world.node(gpuNode(own(N1)));
    world.node(gpuNode(own(N1, MANAGED_BY, 'tenant-b')), START + HOUR / 4);
    const { events } = world.close(START, START + HOUR);
    expect(total(events, METRICS.node, { tenant: first.tenant })).toBe(0.25);
    expect(total(events, METRICS.gpu, { tenant: other.tenant })).toBe(6);
  });
});

describe('nothing on a dedicated node is billed twice', () => {
  test('N06: the tenant’s own pods are covered', () => {
    const pods = [
      { name: 'p', node: 'n1', containers: [{ [GPU]: 2, cpu: '10', memory: '100Gi' }] },
    ];
    const events = hourOf({ nodes: [own(N1)], pods });
    expect(sums(events)).toEqual(WHOLE);
    expect(sums(events, { billing_mode: 'shared' })).toEqual([0, 0, 0, 0, 0]);
  });

  test('N07: another tenant’s pods are billed to that tenant', () => {
    const other = cluster('b', {}, { namespace: 'tenant-b' });
    const labels = { [MANAGED_BY]: 'b' };
    const pods = [
      {
        name: 'p',
        namespace: 'tenant-b',
        labels,
        node: 'n1',
        containers: [{ [GPU]: 2, cpu: '10' }],
      },
    ];
    const events = hourOf({ nodes: [own(N1)], pods, clusters: [cluster('a'), other] });
    expect(sums(events, { billing_mode: 'dedicated_node' })).toEqual(WHOLE);
    expect(sums(events, { tenant: other.tenant, billing_mode: 'shared' })).toEqual([
      0, 2, 0, 10, 0,
    ]);
  });
});

test('N08: a node without GPUs has neither GPU hours nor downtime', () => {
  const events = hourOf({ nodes: [own(N7)] });
  expect(sums(events)).toEqual([1, 0, 0, 8, 32]);
  expect(only(events, 'node').sku).toBe('m6i.2xlarge');
});

describe('nothing of a node that is down is billed, and its GPUs are downtime', () => {
  const taint = (key: string, effect = 'NoExecute', at = START - 3600_000) => ({
    key,
    effect,
    ...(effect === 'NoExecute' ? { timeAdded: iso(at) } : {}),
  });

  test.each<[string, NodeFixture]>([
    ['N09', variant(own(N1), { taints: [taint(UNREACHABLE)] })],
    ['N10', variant(own(N1), { taints: [taint(UNREACHABLE, 'NoSchedule'), taint(UNREACHABLE)] })],
  ])('%s', (_id, node) => {
    const events = hourOf({ nodes: [node] });
    expect(sums(events)).toEqual([0, 0, 8, 0, 0]);
    expect(only(events, 'down')).toMatchObject({
      unit: 'gpu-hours',
      sku: H100,
      resource_id: 'n1',
      dimensions: { gpu_type: H100, node: 'n1', tenant_cluster: 'tenant-tenant-a-a' },
      properties: { reason: 'node not ready or unhealthy' },
    });
  });

  test('N11: a cordoned node is not down', () => {
    const node = variant(own(N1), {
      taints: [taint('node.kubernetes.io/unschedulable', 'NoSchedule')],
    });
    expect(sums(hourOf({ nodes: [node] }))).toEqual(WHOLE);
  });

  test('N12: a node whose kubelet is not ready is down by its taint alone', () => {
    const condition = { type: 'Ready', status: 'False', lastTransitionTime: iso(START) };
    const node = variant(own(N1), { conditions: [condition] });
    expect(sums(hourOf({ nodes: [node] }))).toEqual(WHOLE);
  });

  test('N13: the configured taints take the place of the default ones', () => {
    const nodes = [
      variant(own(N1), { taints: [taint('example.com/broken')] }),
      variant(own(N1), { name: 'n2', taints: [taint('node.kubernetes.io/not-ready')] }),
    ];
    const nodeSettings = { unhealthyNodeTaints: ['example.com/broken'] };
    const events = hourOf({ nodes, nodeSettings });
    expect(sums(events, { node: 'n1' })).toEqual([0, 0, 8, 0, 0]);
    expect(sums(events, { node: 'n2' })).toEqual(WHOLE);
  });

  test('N32: pods on a shared node', () => {
    const nodes = [variant(N1, { taints: [taint(UNREACHABLE)] })];
    const pods = [{ name: 'p', node: 'n1', containers: [{ [GPU]: 2, cpu: '4' }] }];
    const events = hourOf({ nodes, pods });
    expect(sums(events)).toEqual([0, 0, 2, 0, 0]);
    expect(only(events, 'down')).toMatchObject({
      resource_id: 'tenant-tenant-a-a',
      dimensions: { gpu_type: H100, node: 'n1' },
      properties: { reason: 'node not ready or unhealthy' },
    });
  });

  test('it is down from the moment the taint names until the taint is gone', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(own(N1)));
    const began = START + HOUR / 4;
    const down = variant(own(N1), { taints: [taint(UNREACHABLE, 'NoExecute', began)] });
    world.node(gpuNode(down), began + 20_000);
    world.node(gpuNode(own(N1)), START + HOUR / 2);
    const { events } = world.close(START, START + HOUR);
    expect(sums(events)).toEqual([0.75, 6, 2, 144, 1536]);
  });

  test('a taint without a time counts from when the node ceased to be ready', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(own(N1)));
    const began = START + HOUR / 2;
    const down = variant(own(N1), {
      taints: [taint(UNREACHABLE, 'NoSchedule')],
      conditions: [{ type: 'Ready', status: 'Unknown', lastTransitionTime: iso(began) }],
    });
    world.node(gpuNode(down), began + 30_000);
    const { events } = world.close(START, START + HOUR);
    expect(sums(events)).toEqual([0.5, 4, 4, 96, 1024]);
  });

  test('an outage that ended within the window does not decide all of it, as in accident 30', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1));
    world.pod(pod({ name: 'p', node: 'n1', containers: [{ [GPU]: 4 }] }));
    const tainted = variant(N1, { taints: [taint(UNREACHABLE, 'NoExecute', START + HOUR / 4)] });
    world.node(gpuNode(tainted), START + HOUR / 4);
    world.node(gpuNode(N1), START + HOUR / 2);
    const { events } = world.close(START, START + HOUR);
    expect(sums(events)).toEqual([0, 3, 1, 0, 0]);
  });

  test('an outage that is told after its window closed is given back in the next one', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1), START - 1000);
    world.node(gpuNode(variant(own(N1), { name: 'n2' })), START - 1000);
    world.pod(pod({ name: 'p', node: 'n1', containers: [{ [GPU]: 4, cpu: '1' }] }));
    world.close(START, START + HOUR);
    const began = START + HOUR - 30_000;
    const taints = [taint(UNREACHABLE, 'NoExecute', began)];
    world.node(gpuNode(variant(N1, { taints })), START + HOUR + 20_000);
    world.node(gpuNode(variant(own(N1), { name: 'n2', taints })), START + HOUR + 20_000);
    world.node(gpuNode(N1), START + HOUR + 60_000);
    world.node(gpuNode(variant(own(N1), { name: 'n2' })), START + HOUR + 60_000);
    const { events } = world.close(START + HOUR, START + 2 * HOUR);
    const hours = (3600 - 90) / 3600;
    const close = (value: number) => expect.closeTo(value, 8);
    expect(sums(events, { node: 'n2' })).toEqual([
      close(hours),
      close(8 * hours),
      close(0.2),
      close(192 * hours),
      close(2048 * hours),
    ]);
    expect(total(events, METRICS.gpu, { billing_mode: 'shared' })).toBeCloseTo(4 * hours, 8);
    expect(total(events, METRICS.down, { node: 'n1' })).toBeCloseTo(0.1, 8);
    expect(total(events, METRICS.cpu, { billing_mode: 'shared' })).toBeCloseTo(hours, 8);
  });
});

describe('GPUs that are installed but cannot be allocated are downtime; the node is billed', () => {
  const REASON = 'GPUs installed but not allocatable';
  const dead = own(variant(N1, { allocatable: { [GPU]: '0' } }));
  test.each<[string, NodeFixture, number[]]>([
    ['N14', dead, [1, 0, 8, 192, 2048]],
    ['N15', own(variant(N1, { capacity: { [GPU]: '0' } })), [1, 0, 8, 192, 2048]],
    ['N16', own(variant(N1, { capacity: { [GPU]: null } })), [1, 0, 8, 192, 2048]],
    ['N17: under MIG single', own(variant(N5, { capacity: { [GPU]: '0' } })), [1, 0, 8, 0, 0]],
    ['N24', own(variant(N1, { allocatable: { [GPU]: '7' } })), [1, 7, 1, 192, 2048]],
    ['N25', own(variant(N6, { allocatable: { 'amd.com/gpu': '0' } })), [1, 0, 8, 0, 0]],
  ])('%s', (_id, node, want) => {
    const events = hourOf({ nodes: [node] });
    expect(sums(events)).toEqual(want);
    expect(only(events, 'down').properties).toMatchObject({ reason: REASON });
  });

  test('until they can be allocated again', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(dead));
    world.node(gpuNode(own(N1)), START + HOUR / 4);
    expect(sums(world.close(START, START + HOUR).events)).toEqual([1, 6, 2, 192, 2048]);
  });
});

describe('a node is not without GPUs because one resource reads zero', () => {
  test.each<[string, NodeFixture, number, string]>([
    ['N18', own(N4), 8, H100],
    ['N19', own(N3), 4, A10G],
    ['N21', own(N5), 8, H100],
  ])('%s', (_id, node, gpus, type) => {
    const events = hourOf({ nodes: [node] });
    expect(sums(events).slice(0, 3)).toEqual([1, gpus, 0]);
    expect(only(events, 'gpu')).toMatchObject({
      sku: type,
      dimensions: { gpu_type: type, gpu_profile: 'full' },
      properties: { physical_gpus: gpus },
    });
  });
});

describe('the sku of a node', () => {
  const skuOf = (node: NodeFixture, options: WorldOptions = {}) =>
    only(hourOf({ nodes: [node], ...options }), 'node').sku;
  const bare = { 'node.kubernetes.io/instance-type': null };

  test('N29: is what SKU_LABEL says', () => {
    const node = own(N7, 'example.com/sku', 'cpu-m');
    expect(skuOf(own(node), { nodeSettings: { skuLabel: 'example.com/sku' } })).toBe('cpu-m');
  });

  test('is else the instance type, else its GPUs, else that it has none', () => {
    expect(skuOf(own(N7))).toBe('m6i.2xlarge');
    expect(skuOf(own(variant(N1, { labels: bare })))).toBe(`8x${H100}`);
    expect(skuOf(own(variant(N7, { labels: bare })))).toBe('cpu-node');
  });
});

describe('where a node is', () => {
  const ZONE = 'topology.kubernetes.io/zone';
  test('N30: its zone label, else ZONE, else nothing', () => {
    const zoneOf = (node: NodeFixture, zone?: string) =>
      only(hourOf({ nodes: [own(node)], settings: zone === undefined ? {} : { zone } }), 'gpu')
        .dimensions?.['zone'];
    expect(zoneOf(variant(N1, { labels: { [ZONE]: 'us-east-1a' } }), 'z9')).toBe('us-east-1a');
    expect(zoneOf(N1, 'z9')).toBe('z9');
    expect(zoneOf(N1)).toBeUndefined();
  });

  test('N31: its region label with REGION_FROM_NODE, on what the node bears', () => {
    const node = variant(own(N1), { labels: { 'topology.kubernetes.io/region': 'us-east-1' } });
    const regionOf = (regionFromNode: boolean) => {
      const events = hourOf({ nodes: [node], settings: { regionFromNode } });
      return [only(events, 'node').region, only(events, 'gpu').region];
    };
    expect(regionOf(true)).toEqual(['us-east-1', 'us-east-1']);
    expect(regionOf(false)).toEqual(['default', 'default']);
  });
});

describe('the life of a node', () => {
  test('one that is deleted within the window is billed to its deletion', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(own(N1)));
    world.nodeGone(gpuNode(own(N1)), START + HOUR / 4);
    expect(sums(world.close(START, START + HOUR).events)).toEqual([0.25, 2, 0, 48, 512]);
  });

  test('one that comes back under its name keeps its first life, which accident 13 lost', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(own(N1)));
    world.nodeGone(gpuNode(own(N1)), START + HOUR / 4);
    const again = gpuNode(own(N1));
    const metadata = {
      ...(again['metadata'] as object),
      uid: 'again',
      creationTimestamp: iso(START + HOUR / 2),
    };
    world.node({ ...again, metadata }, START + HOUR / 2);
    expect(sums(world.close(START, START + HOUR).events)).toEqual([0.75, 6, 0, 144, 1536]);
  });

  test('an excluded tenant cluster’s nodes are billed to nobody', () => {
    const clusters = [cluster('a', {}, { excluded: true })];
    expect(sums(hourOf({ nodes: [own(N1)], clusters }))).toEqual([0, 0, 0, 0, 0]);
  });
});
