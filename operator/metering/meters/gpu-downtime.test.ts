import { describe, expect, test } from 'vitest';
import {
  A10G,
  gpuNode,
  H100,
  N1,
  N3,
  N4,
  N5,
  N6,
  type NodeFixture,
  variant,
} from './testing/gpu-nodes.ts';
import { GPU, hourOf, METRICS, only, dedicatedTo, sums, COMPLETE } from './testing/node-hours.ts';
import { cluster, iso, SYNCED_LABELS, pod } from './testing/objects.ts';
import { createWorld, HOUR, START, total } from './testing/world.ts';

const UNREACHABLE = 'node.kubernetes.io/unreachable';
describe('nothing of a node that is down is billed, and its GPUs are downtime', () => {
  const taint = (key: string, effect = 'NoExecute', at = START - 3600_000) => ({
    key,
    effect,
    ...(effect === 'NoExecute' ? { timeAdded: iso(at) } : {}),
  });

  test.each<[string, NodeFixture]>([
    ['N09: unreachable', variant(dedicatedTo(N1), { taints: [taint(UNREACHABLE)] })],
    [
      'N10: unreachable, by two taints',
      variant(dedicatedTo(N1), { taints: [taint(UNREACHABLE, 'NoSchedule'), taint(UNREACHABLE)] }),
    ],
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
    const node = variant(dedicatedTo(N1), {
      taints: [taint('node.kubernetes.io/unschedulable', 'NoSchedule')],
    });
    expect(sums(hourOf({ nodes: [node] }))).toEqual(COMPLETE);
  });

  test('N12: a node whose kubelet is not ready is down by its taint alone', () => {
    const condition = { type: 'Ready', status: 'False', lastTransitionTime: iso(START) };
    const node = variant(dedicatedTo(N1), { conditions: [condition] });
    expect(sums(hourOf({ nodes: [node] }))).toEqual(COMPLETE);
  });

  test('N13: the configured taints take the place of the default ones', () => {
    const nodes = [
      variant(dedicatedTo(N1), { taints: [taint('example.com/broken')] }),
      variant(dedicatedTo(N1), { name: 'n2', taints: [taint('node.kubernetes.io/not-ready')] }),
    ];
    const nodeSettings = { unhealthyNodeTaints: ['example.com/broken'] };
    const events = hourOf({ nodes, nodeSettings });
    expect(sums(events, { node: 'n1' })).toEqual([0, 0, 8, 0, 0]);
    expect(sums(events, { node: 'n2' })).toEqual(COMPLETE);
  });

  test('downtime of pods is split by the namespace inside the tenant cluster when set', () => {
    const nodes = [variant(N1, { taints: [taint(UNREACHABLE)] })];
    const within = (namespace: string) => ({
      ...SYNCED_LABELS,
      'vcluster.loft.sh/namespace': namespace,
    });
    const pods = [
      { name: 'p', node: 'n1', labels: within('ml'), containers: [{ [GPU]: 2 }] },
      { name: 'q', node: 'n1', labels: within('web'), containers: [{ [GPU]: 1 }] },
    ];
    const split = hourOf({ nodes, pods, clusters: [cluster('a', { meterByNamespace: true })] });
    expect(sums(split, { namespace: 'ml' })).toEqual([0, 0, 2, 0, 0]);
    expect(sums(split, { namespace: 'web' })).toEqual([0, 0, 1, 0, 0]);
    expect(only(hourOf({ nodes, pods }), 'down').dimensions).not.toHaveProperty('namespace');
    const dedicated = [variant(dedicatedTo(N1), { taints: [taint(UNREACHABLE)] })];
    const clusters = [cluster('a', { meterByNamespace: true })];
    const complete = only(hourOf({ nodes: dedicated, pods, clusters }), 'down');
    expect([complete.quantity, 'namespace' in (complete.dimensions ?? {})]).toEqual(['8', false]);
  });

  const deletion = { deletionTimestamp: iso(START), deletionGracePeriodSeconds: 30 };
  test.each([
    ['N32: a pod that runs on a shared node', {}],
    ['N32: a pod that is being deleted from a shared node', deletion],
  ])('%s', (_id, metadata) => {
    const nodes = [variant(N1, { taints: [taint(UNREACHABLE)] })];
    const pods = [{ name: 'p', node: 'n1', metadata, containers: [{ [GPU]: 2, cpu: '4' }] }];
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
    world.node(gpuNode(dedicatedTo(N1)));
    const began = START + HOUR / 4;
    const down = variant(dedicatedTo(N1), { taints: [taint(UNREACHABLE, 'NoExecute', began)] });
    world.node(gpuNode(down), began + 20_000);
    world.node(gpuNode(dedicatedTo(N1)), START + HOUR / 2);
    const { events } = world.close(START, START + HOUR);
    expect(sums(events)).toEqual([0.75, 6, 2, 144, 1536]);
  });

  test('a taint without a time counts from when the node ceased to be ready', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(dedicatedTo(N1)));
    const began = START + HOUR / 2;
    const down = variant(dedicatedTo(N1), {
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

  test('an outage that is reported after its window closed is reversed in the next one', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1), START - 1000);
    world.node(gpuNode(variant(dedicatedTo(N1), { name: 'n2' })), START - 1000);
    world.pod(pod({ name: 'p', node: 'n1', containers: [{ [GPU]: 4, cpu: '1' }] }));
    world.close(START, START + HOUR);
    const began = START + HOUR - 30_000;
    const taints = [taint(UNREACHABLE, 'NoExecute', began)];
    world.node(gpuNode(variant(N1, { taints })), START + HOUR + 20_000);
    world.node(gpuNode(variant(dedicatedTo(N1), { name: 'n2', taints })), START + HOUR + 20_000);
    world.node(gpuNode(N1), START + HOUR + 60_000);
    world.node(gpuNode(variant(dedicatedTo(N1), { name: 'n2' })), START + HOUR + 60_000);
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
  const dead = dedicatedTo(variant(N1, { allocatable: { [GPU]: '0' } }));
  test.each<[string, NodeFixture, number[]]>([
    ['N14: none is allocatable', dead, [1, 0, 8, 192, 2048]],
    [
      'N15: the device plugin reports zero',
      dedicatedTo(variant(N1, { capacity: { [GPU]: '0' } })),
      [1, 0, 8, 192, 2048],
    ],
    [
      'N16: the device plugin reports nothing',
      dedicatedTo(variant(N1, { capacity: { [GPU]: null } })),
      [1, 0, 8, 192, 2048],
    ],
    [
      'N17: under MIG single',
      dedicatedTo(variant(N5, { capacity: { [GPU]: '0' } })),
      [1, 0, 8, 0, 0],
    ],
    [
      'N24: one of eight is not allocatable',
      dedicatedTo(variant(N1, { allocatable: { [GPU]: '7' } })),
      [1, 7, 1, 192, 2048],
    ],
    [
      'N25: none of AMD’s is allocatable',
      dedicatedTo(variant(N6, { allocatable: { 'amd.com/gpu': '0' } })),
      [1, 0, 8, 0, 0],
    ],
  ])('%s', (_id, node, want) => {
    const events = hourOf({ nodes: [node] });
    expect(sums(events)).toEqual(want);
    expect(only(events, 'down').properties).toMatchObject({ reason: REASON });
  });

  test('until they can be allocated again', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(dead));
    world.node(gpuNode(dedicatedTo(N1)), START + HOUR / 4);
    expect(sums(world.close(START, START + HOUR).events)).toEqual([1, 6, 2, 192, 2048]);
  });
});

describe('a node is not without GPUs because one resource reads zero', () => {
  test.each<[string, NodeFixture, number, string]>([
    ['N18: under MIG mixed', dedicatedTo(N4), 8, H100],
    ['N19: shared under a name of its own', dedicatedTo(N3), 4, A10G],
    ['N21: under MIG single', dedicatedTo(N5), 8, H100],
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
