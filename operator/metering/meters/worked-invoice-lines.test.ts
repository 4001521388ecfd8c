import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { gpusOf } from '../../model/gpu-units.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { resourceClaim, result, slice, fullGpu } from './testing/claims.ts';
import { gpuNode, N1, N2, N3, N4, N5, N6, type NodeFixture, variant } from './testing/gpu-nodes.ts';
import { hamiGiven, hamiNode } from './testing/hami.ts';
import { fractionPod, KAI, reservation } from './testing/kai.ts';
import { sums } from './testing/node-hours.ts';
import { cluster, pod } from './testing/objects.ts';
import { createWorld, HOUR, START } from './testing/world.ts';

const PAGE = readFileSync(new URL('../../../docs/explanation/gpus.md', import.meta.url), 'utf8');
const NODES = readFileSync(new URL('../../../docs/explanation/nodes.md', import.meta.url), 'utf8');
const GPU = 'nvidia.com/gpu';

/** The page's line about a mode: the sku, and the figure in bold. */
function published(begins: string): readonly [sku: string | undefined, hours: number] {
  const row = PAGE.split('\n').find((line) => line.startsWith(`| ${begins}`));
  if (row === undefined) throw new Error(`no row: docs/explanation/gpus.md: "${begins}"`);
  const cells = row.split('|').map((cell) => cell.trim());
  return [cells[2]?.replaceAll('`', ''), Number(/\*\*([\d.]+)\*\*/.exec(row)?.[1])];
}

const mps = variant(N2, { labels: { 'nvidia.com/gpu.sharing-strategy': 'mps' } });
const slicedMig = variant(N4, {
  labels: { 'nvidia.com/mig-1g.10gb.replicas': '2' },
  capacity: { 'nvidia.com/mig-1g.10gb': null, 'nvidia.com/mig-1g.10gb.shared': '112' },
});
const parted = variant(N6, { capacity: { 'amd.com/gpu': null, 'amd.com/cpx_nps4': '64' } });

test.each<[string, NodeFixture, string, number, number]>([
  ['`nvidia.com/gpu: 2` on 8', N1, GPU, 2, 3.5],
  ['`nvidia.com/mig-3g.40gb: 1`', N4, 'nvidia.com/mig-3g.40gb', 1, 7],
  ['`nvidia.com/gpu: 2` where', N5, GPU, 2, 3.5],
  ['`nvidia.com/gpu: 1`, time-sliced', N2, GPU, 1, 6],
  ['`nvidia.com/gpu.shared: 3`', N3, 'nvidia.com/gpu.shared', 3, 2],
  ['`nvidia.com/gpu: 1`, MPS', mps, GPU, 1, 2],
  ['`nvidia.com/mig-1g.10gb.shared: 1`', slicedMig, 'nvidia.com/mig-1g.10gb.shared', 1, 14],
  ['`amd.com/gpu: 1`', N6, 'amd.com/gpu', 1, 1.5],
  ['`amd.com/cpx_nps4: 4`', parted, 'amd.com/cpx_nps4', 4, 3],
])('the accountant reckons as the meter does: %s', (begins, node, resource, count, hours) => {
  const gpuResources = [GPU, 'amd.com/gpu', 'amd.com/cpx_nps4'];
  const world = createWorld({ nodeSettings: { gpuResources } });
  world.clusters([cluster('a')]);
  world.node(gpuNode(node));
  const fixture = { name: 'p', node: node.name ?? 'n1', containers: [{ [resource]: count }] };
  world.pod(pod(fixture));
  const end = START + hours * HOUR;
  world.pod(pod({ ...fixture, phase: 'Succeeded', finishedAt: end }), end);
  const { events } = world.close(START, START + 14 * HOUR);
  const [event] = events.filter(({ metric }) => metric === 'tenant_gpu_hours');
  expect([event?.sku, Number(event?.quantity)]).toEqual(published(begins));
});

test.each<[string, string, Readonly<Record<string, number>>, number]>([
  ['HAMi, `nvidia.com/gpumem', `GPU-0,NVIDIA,20480,0:;`, { 'nvidia.com/gpumem': 20_480 }, 6],
  ['HAMi, `nvidia.com/gpucores', `GPU-0,NVIDIA,81920,30:;`, { 'nvidia.com/gpucores': 30 }, 5],
])('the accountant reckons as the meter does: %s', (begins, given, limits, hours) => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  world.node(hamiNode());
  world.pod(hamiGiven(given, { containers: [{ [GPU]: 1, ...limits }] }));
  const { events } = world.close(START, START + hours * HOUR);
  const [event] = events.filter(({ metric }) => metric === 'tenant_gpu_hours');
  expect([event?.sku, Number(event?.quantity)]).toEqual(published(begins));
});

const TWO_QUARTERS = { 'gpu-fraction': '0.25', 'gpu-fraction-num-devices': '2' };

test.each<[string, Readonly<Record<string, string>>, number]>([
  ['KAI, `gpu-fraction', TWO_QUARTERS, 3],
  ['Run:ai, `gpu-memory', { 'gpu-memory': '20480' }, 6],
])('the accountant reckons as the meter does: %s', (begins, annotations, hours) => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  world.node(gpuNode(KAI));
  world.pod(fractionPod('p', annotations, ['g1', 'g2']));
  const { events } = world.close(START, START + hours * HOUR);
  const [event] = events.filter(({ metric }) => metric === 'tenant_gpu_hours');
  expect([event?.sku, Number(event?.quantity)]).toEqual(published(begins));
});

test('the accountant reckons as the meter does: two parts of one GPU and what is idle of it', () => {
  const [, ...written] =
    /share a GPU for (\d+) hours: \*\*(\d+)\*\* and \*\*(\d+)\*\* GPU hours, and (\d+) hour/.exec(
      PAGE,
    ) ?? [];
  const world = createWorld();
  world.clusters([cluster('a', { meterByNamespace: true })]);
  world.node(
    gpuNode(variant(KAI, { labels: { 'nvidia.com/gpu.count': '1' }, capacity: { [GPU]: '1' } })),
  );
  for (const [namespace, part] of [
    ['p', '0.25'],
    ['q', '0.5'],
  ] as const) {
    const labels = { 'vcluster.loft.sh/managed-by': 'a', 'vcluster.loft.sh/namespace': namespace };
    world.pod(fractionPod(namespace, { 'gpu-fraction': part }, ['g1'], { labels }));
  }
  world.pod(reservation('g1'));
  const { events, diagnostics } = world.close(START, START + Number(written[0]) * HOUR);
  const hours = events
    .filter(({ metric }) => metric === 'tenant_gpu_hours')
    .map(({ quantity }) => Number(quantity));
  const idle = diagnostics.gpuBalances.map((row) => gpusOf(row.idle / BigInt(HOUR)));
  expect([...hours, ...idle]).toEqual(written.slice(1).map(Number));
});

const MEMORY = { memory: { value: '80Gi' } };
const SHARES = { ...MEMORY, shares: { value: '4' } };

test.each<[string, RawObject, readonly RawObject[], number]>([
  ['a claim of 20 GiB', MEMORY, [{ memory: '20Gi' }], 6],
  ['a claim of one of the four', SHARES, [{ memory: '0', shares: '1' }], 6],
  ['one of two claims that hold', MEMORY, [{ memory: '0' }, { memory: '0' }], 5],
])('the accountant reckons as the meter does: %s', (begins, capacity, consumed, hours) => {
  const world = createWorld();
  world.clusters([cluster('c0'), cluster('c1')]);
  world.node(gpuNode({ ...N1, capacity: {} }));
  const shared = { ...fullGpu(0), allowMultipleAllocations: true, capacity };
  world.slice(slice({ devices: [shared] }));
  const end = START + hours * HOUR;
  for (const [index, consumedCapacity] of consumed.entries()) {
    const name = `c${index}`;
    const labels = { 'vcluster.loft.sh/managed-by': name };
    const devices = [result('gpu-0', { shareID: `share-${index}`, consumedCapacity })];
    world.pod(pod({ name, labels, node: 'n1' }));
    world.resourceClaim(resourceClaim({ name, labels, devices }));
  }
  const { events } = world.close(START, end);
  const [event] = events.filter(({ metric }) => metric === 'tenant_gpu_hours');
  expect([event?.sku, Number(event?.quantity)]).toEqual(published(begins));
});

test('the accountant reckons as the meter does: a dedicated node', () => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  world.node(gpuNode(variant(N1, { labels: { 'vcluster.loft.sh/managed-by': 'a' } })));
  const { events } = world.close(START, START + 24 * HOUR);
  const [event] = events.filter(({ metric }) => metric === 'tenant_gpu_hours');
  expect([event?.sku, Number(event?.quantity)]).toEqual(published('a dedicated node'));
});

describe('the accountant reckons as the meter does: nodes of a tenant cluster’s own', () => {
  const inside = 'tenant-tenant-a-a';
  const end = START + 36 * HOUR;

  test('billed as a whole', () => {
    const world = createWorld({ inside });
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1));
    const { events } = world.close(START, end);
    const [event] = events.filter(({ metric }) => metric === 'tenant_gpu_hours');
    expect([event?.sku, Number(event?.quantity)]).toEqual(published('a private node'));
  });

  test('billed by usage', () => {
    const world = createWorld({ inside });
    world.clusters([cluster('a', { privateNodeBilling: 'usage' })]);
    world.node(gpuNode(N1));
    world.pod(pod({ name: 'p', namespace: 'ml', node: 'n1', containers: [{ [GPU]: 3 }] }));
    const { events } = world.close(START, end);
    const [event] = events.filter(({ metric }) => metric === 'tenant_gpu_hours');
    expect([event?.sku, Number(event?.quantity)]).toEqual(published('the same node billed'));
  });

  test('down for the last two of 36 hours', () => {
    const text = NODES.replaceAll(/\s+/g, ' ');
    const [, ...written] =
      /comes to: (\d+) node hours, (\d+) GPU hours, (\d+) core-hours, (\d+) GiB-hours, and (\d+) GPU hours of downtime/.exec(
        text,
      ) ?? [];
    const world = createWorld({ inside });
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1));
    const taints = [{ key: 'node.kubernetes.io/unreachable', effect: 'NoSchedule' }];
    world.node(gpuNode(variant(N1, { taints })), end - 2 * HOUR);
    const { events } = world.close(START, end);
    const [nodes, gpus, downtime, cores, memory] = sums(events);
    expect(written.map(Number)).toEqual([nodes, gpus, cores, memory, downtime]);
  });
});
