import { describe, expect, test } from 'vitest';
import { gpuNode, H100, N1, N7, type NodeFixture, variant } from './testing/gpu-nodes.ts';
import {
  GPU,
  hourOf,
  MANAGED_BY,
  only,
  dedicatedTo,
  sums,
  COMPLETE,
} from './testing/node-hours.ts';
import { cluster, iso, pod } from './testing/objects.ts';
import { createWorld, HOUR, START, type WorldOptions } from './testing/world.ts';

test('N01: a dedicated node is billed as a whole, with all that prices it', () => {
  const events = hourOf({ nodes: [dedicatedTo(N1)] });
  expect(sums(events, { billing_mode: 'dedicated_node' })).toEqual(COMPLETE);
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

describe('nothing on a dedicated node is billed twice', () => {
  test.each(['usage', 'requests', 'max'] as const)(
    'N06: the tenant’s own pods are covered, basis %s',
    (basis) => {
      const world = createWorld();
      world.clusters([cluster('a', { cpuMemoryBasis: basis })]);
      world.node(gpuNode(dedicatedTo(N1)));
      const containers = [{ [GPU]: 2, cpu: '10', memory: '100Gi' }];
      world.pod(pod({ name: 'p', node: 'n1', containers }));
      world.sample({ p: ['10', '100Gi'] }, START);
      const { events } = world.close(START, START + HOUR);
      expect(sums(events)).toEqual(COMPLETE);
      expect(sums(events, { billing_mode: 'shared' })).toEqual([0, 0, 0, 0, 0]);
    },
  );

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
    const events = hourOf({ nodes: [dedicatedTo(N1)], pods, clusters: [cluster('a'), other] });
    expect(sums(events, { billing_mode: 'dedicated_node' })).toEqual(COMPLETE);
    expect(sums(events, { tenant: other.tenant, billing_mode: 'shared' })).toEqual([
      0, 2, 0, 10, 0,
    ]);
  });
});

test('N08: a node without GPUs has neither GPU hours nor downtime', () => {
  const events = hourOf({ nodes: [dedicatedTo(N7)] });
  expect(sums(events)).toEqual([1, 0, 0, 8, 32]);
  expect(only(events, 'node').sku).toBe('m6i.2xlarge');
});

describe('the sku of a node', () => {
  const skuOf = (node: NodeFixture, options: WorldOptions = {}) =>
    only(hourOf({ nodes: [node], ...options }), 'node').sku;
  const bare = { 'node.kubernetes.io/instance-type': null };

  test('N29: is the value of SKU_LABEL', () => {
    const node = dedicatedTo(N7, 'example.com/sku', 'cpu-m');
    expect(skuOf(dedicatedTo(node), { nodeSettings: { skuLabel: 'example.com/sku' } })).toBe(
      'cpu-m',
    );
  });

  test('is else the instance type, else its GPUs, else that it has none', () => {
    expect(skuOf(dedicatedTo(N7))).toBe('m6i.2xlarge');
    expect(skuOf(dedicatedTo(variant(N1, { labels: bare })))).toBe(`8x${H100}`);
    expect(skuOf(dedicatedTo(variant(N7, { labels: bare })))).toBe('cpu-node');
  });
});

describe('where a node is', () => {
  const ZONE = 'topology.kubernetes.io/zone';
  test('N30: its zone label, else ZONE, else nothing', () => {
    const zoneOf = (node: NodeFixture, zone?: string) =>
      only(
        hourOf({ nodes: [dedicatedTo(node)], settings: zone === undefined ? {} : { zone } }),
        'gpu',
      ).dimensions?.['zone'];
    expect(zoneOf(variant(N1, { labels: { [ZONE]: 'us-east-1a' } }), 'z9')).toBe('us-east-1a');
    expect(zoneOf(N1, 'z9')).toBe('z9');
    expect(zoneOf(N1)).toBeUndefined();
  });

  test('N31: its region label with REGION_FROM_NODE, on what the node bears', () => {
    const node = variant(dedicatedTo(N1), {
      labels: { 'topology.kubernetes.io/region': 'us-east-1' },
    });
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
    world.node(gpuNode(dedicatedTo(N1)));
    world.nodeGone(gpuNode(dedicatedTo(N1)), START + HOUR / 4);
    expect(sums(world.close(START, START + HOUR).events)).toEqual([0.25, 2, 0, 48, 512]);
  });

  test('one that comes back under its name keeps its first life, which accident 13 lost', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(dedicatedTo(N1)));
    world.nodeGone(gpuNode(dedicatedTo(N1)), START + HOUR / 4);
    const again = gpuNode(dedicatedTo(N1));
    const metadata = {
      ...(again['metadata'] as object),
      uid: 'again',
      creationTimestamp: iso(START + HOUR / 2),
    };
    world.node({ ...again, metadata }, START + HOUR / 2);
    expect(sums(world.close(START, START + HOUR).events)).toEqual([0.75, 6, 0, 144, 1536]);
  });

  test('an outage of closed windows that is reported late is reversed, as carried', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(dedicatedTo(N7)));
    world.close(START, START + HOUR);
    const key = 'node.kubernetes.io/unreachable';
    const taints = [{ key, effect: 'NoExecute', timeAdded: iso(START + (HOUR * 3) / 4) }];
    world.node(gpuNode(variant(dedicatedTo(N7), { taints })), START + HOUR + 60_000);
    world.node(gpuNode(dedicatedTo(N7)), START + (HOUR * 5) / 4);
    const { events, explanations } = world.close(START + HOUR, START + 2 * HOUR);
    expect(sums(events)).toEqual([0.5, 0, 0, 4, 16]);
    const carried = events.map(({ properties }) => properties?.['carried_seconds']);
    expect(carried).toEqual([-900, -900, -900]);
    const node = events.findIndex(({ metric }) => metric === 'tenant_private_node_hours');
    expect(explanations[node]).toMatchObject({ measured: 0.75, carried: -0.25 });
  });

  test('an excluded tenant cluster’s nodes are billed to nobody', () => {
    const clusters = [cluster('a', {}, { excluded: true })];
    expect(sums(hourOf({ nodes: [dedicatedTo(N1)], clusters }))).toEqual([0, 0, 0, 0, 0]);
  });
});

test('downtime for two reasons in turn names each once', () => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  const missing = variant(dedicatedTo(N1), { allocatable: { [GPU]: '0' } });
  const down = variant(dedicatedTo(N1), {
    taints: [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' }],
  });
  world.node(gpuNode(missing));
  for (const [quarter, version] of [down, missing, down].entries()) {
    world.node(gpuNode(version), START + ((quarter + 1) * HOUR) / 4);
  }
  const { events } = world.close(START, START + HOUR);
  expect(sums(events)).toEqual([0.5, 0, 8, 96, 1024]);
  expect(only(events, 'down').properties?.['reason']).toBe(
    'GPUs installed but not allocatable; node not ready or unhealthy',
  );
});
