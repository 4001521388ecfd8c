import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { type ResourceClaimFixture, migDevice, result, slice, fullGpu } from './testing/claims.ts';
import { draWorld } from './testing/claim-scene.ts';
import { gpuNode, N1, N2, N3, N4, N5, N6, type NodeFixture, variant } from './testing/gpu-nodes.ts';
import { closed, GPU, METRICS, only, dedicatedTo } from './testing/node-hours.ts';
import { fractionPod, KAI } from './testing/kai.ts';
import { cluster, iso, pod } from './testing/objects.ts';
import { createWorld, HOUR, START, total } from './testing/world.ts';

const byDevices = [cluster('a', { gpuQuantity: 'devices' })];
const mps = variant(N2, { labels: { 'nvidia.com/gpu.sharing-strategy': 'mps' } });
const slicedMig = variant(N4, {
  labels: { 'nvidia.com/mig-1g.10gb.replicas': '2' },
  capacity: { 'nvidia.com/mig-1g.10gb': null, 'nvidia.com/mig-1g.10gb.shared': '112' },
});
const parted = variant(N6, { capacity: { 'amd.com/gpu': null, 'amd.com/cpx_nps4': '64' } });

describe('gpuQuantity: what an hour of a mode comes to, in equivalents and in devices', () => {
  test.each<[string, NodeFixture, string, number, number]>([
    ['a whole GPU', N1, GPU, 3, 3],
    ['MIG, strategy mixed', N4, 'nvidia.com/mig-3g.40gb', 2, 6 / 7],
    ['MIG, strategy single', N5, GPU, 2, 2 / 7],
    ['time-slicing', N2, GPU, 1, 0.25],
    ['time-slicing under its own name', N3, 'nvidia.com/gpu.shared', 3, 0.75],
    ['MPS', mps, GPU, 1, 0.25],
    ['time-slicing of MIG devices', slicedMig, 'nvidia.com/mig-1g.10gb.shared', 7, 0.5],
    ['AMD partitions', parted, 'amd.com/cpx_nps4', 4, 0.5],
  ])('%s', (_mode, node, resource, count, equivalents) => {
    const given = {
      nodes: [node],
      pods: [{ name: 'p', node: node.name ?? 'n1', containers: [{ [resource]: count }] }],
      nodeSettings: { gpuResources: [GPU, 'amd.com/gpu', 'amd.com/cpx_nps4'] },
    };
    const [complete, devices] = [closed(given), closed({ ...given, clusters: byDevices })];
    expect(total(complete.events, METRICS.gpu)).toBeCloseTo(equivalents, 8);
    expect(only(devices.events, 'gpu')).toMatchObject({ quantity: String(count) });
    // The setting does not change the name, the properties or the balance.
    const { quantity, ...rest } = only(devices.events, 'gpu');
    expect({ ...rest, quantity: only(complete.events, 'gpu').quantity }).toEqual(
      only(complete.events, 'gpu'),
    );
    expect(quantity).toBe(String(count));
    expect(devices.diagnostics.gpuBalances).toEqual(complete.diagnostics.gpuBalances);
    for (const row of devices.diagnostics.gpuBalances) expect(row.unaccounted).toBe(0n);
  });
});

test('parts that annotations request count with gpuQuantity devices as their devices', () => {
  const annotations = { 'gpu-fraction': '0.25', 'gpu-fraction-num-devices': '3' };
  const world = createWorld();
  world.clusters(byDevices);
  world.node(gpuNode(KAI));
  world.pod(fractionPod('p', annotations, ['g1', 'g2', 'g3']));
  const { events, explanations } = world.close(START, START + HOUR);
  expect(total(events, METRICS.gpu)).toBe(3);
  const gpus = explanations.flatMap(({ subjects }) => subjects.flatMap((one) => one.gpus ?? []));
  expect(gpus).toMatchObject([
    {
      gpus: 0.75,
      counted: 3,
      sharedBy: 'gpu-fraction 0.25 of each of 3 devices, group g1, g2, g3',
    },
  ]);
});

describe('resource claims with gpuQuantity devices', () => {
  const hourOfClaims = (devices: readonly RawObject[], claims: readonly ResourceClaimFixture[]) => {
    const pods = claims.map(({ name = 'c' }) => ({ name }));
    const world = draWorld({ slices: [slice({ devices })], claims, pods });
    world.clusters(byDevices);
    const { events, diagnostics, explanations } = world.close(START, START + HOUR);
    for (const row of diagnostics.gpuBalances) expect(row.unaccounted).toBe(0n);
    return { hours: total(events, METRICS.gpu), explanations };
  };
  const mig = migDevice(0, '1g.10gb');
  const common = { ...fullGpu(1), allowMultipleAllocations: true };
  const sharing = (name: string) => ({
    name,
    devices: [result('gpu-1', { shareID: `share-${name}` })],
  });

  test('a MIG device is one, and so is a full GPU', () => {
    const claims = [{ devices: [String(mig['name']), 'gpu-1'] }];
    expect(hourOfClaims([mig, fullGpu(1)], claims).hours).toBe(2);
  });

  test('a device that claims share counts once', () => {
    const { hours, explanations } = hourOfClaims([common], [sharing('c'), sharing('d')]);
    expect(hours).toBe(1);
    const gpus = explanations.flatMap(({ subjects, shares }) =>
      shares.flatMap(([subject]) => subjects[subject]?.gpus ?? []),
    );
    const half = { devices: 1, gpus: 0.5, countedAs: 'devices', counted: 0.5 };
    expect(gpus).toEqual([expect.objectContaining(half), expect.objectContaining(half)]);
  });
});

test('a change within the hour: each part counts by the setting of its time', () => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  world.node(gpuNode(N2));
  world.pod(pod({ name: 'p', node: N2.name ?? 'n1', containers: [{ [GPU]: 1 }] }));
  world.clusters(byDevices, START + HOUR / 2);
  const { events, diagnostics, explanations } = world.close(START, START + HOUR);
  expect(total(events, METRICS.gpu)).toBe(0.25 / 2 + 1 / 2);
  for (const row of diagnostics.gpuBalances) expect(row.unaccounted).toBe(0n);
  const subjects = explanations.flatMap((one) => one.subjects.flatMap(({ gpus }) => gpus ?? []));
  expect(subjects.map(({ countedAs, counted, gpus }) => [countedAs, counted, gpus])).toEqual([
    ['equivalents', undefined, 0.25],
    ['devices', 1, 0.25],
  ]);
});

test('a late end is given back as it was charged, not as is counted today', () => {
  const world = createWorld();
  const fixture = { name: 'p', node: N2.name ?? 'n1', containers: [{ [GPU]: 1 }] };
  world.clusters([cluster('a')]);
  world.node(gpuNode(N2));
  for (const name of ['p', 'q']) world.pod(pod({ ...fixture, name }));
  expect(total(world.close(START, START + HOUR).events, METRICS.gpu)).toBe(0.5);
  world.clusters(byDevices, START + HOUR);
  const finishedAt = START + HOUR - 36_000;
  world.pod(pod({ ...fixture, phase: 'Succeeded', finishedAt }), START + HOUR + 1000);
  const { events, diagnostics } = world.close(START + HOUR, START + 2 * HOUR);
  // q is a device for an hour; of p a hundredth of an hour is reversed, at a quarter.
  const [event] = events.filter(({ metric }) => metric === METRICS.gpu);
  expect(event).toMatchObject({ quantity: '0.9975', properties: { carried_seconds: -36 } });
  for (const row of diagnostics.gpuBalances) expect(row.unaccounted).toBe(0n);
});

test('downtime of pods follows, and complete nodes count their physical GPUs', () => {
  const key = 'node.kubernetes.io/unreachable';
  const taints = [{ key, effect: 'NoExecute', timeAdded: iso(START - HOUR) }];
  const pods = [
    { name: 'p', node: N4.name ?? 'n1', containers: [{ 'nvidia.com/mig-1g.10gb': 2 }] },
  ];
  const down = closed({ nodes: [variant(N4, { taints })], pods, clusters: byDevices });
  expect(total(down.events, METRICS.down)).toBe(2);
  for (const row of down.diagnostics.gpuBalances) expect(row.unaccounted).toBe(0n);
  const complete = closed({ nodes: [dedicatedTo(N4)], clusters: byDevices });
  expect(complete.events).toEqual(closed({ nodes: [dedicatedTo(N4)] }).events);
});

test('the accountant reckons as the meter does', () => {
  const page = readFileSync(new URL('../../../docs/explanation/gpus.md', import.meta.url), 'utf8');
  const published = (begins: string): number => {
    const row = page.split('\n').find((line) => line.startsWith(`> - ${begins}`)) ?? '';
    return Number(/\*\*([\d.]+)\*\*/.exec(row)?.[1]);
  };
  for (const [begins, node, resource, count, hours] of [
    ['`nvidia.com/mig-1g.10gb: 2`', N4, 'nvidia.com/mig-1g.10gb', 2, 7],
    ['`nvidia.com/gpu: 1` of four', N2, GPU, 1, 6],
  ] as const) {
    const world = createWorld();
    world.clusters(byDevices);
    world.node(gpuNode(node));
    world.pod(pod({ name: 'p', node: node.name ?? 'n1', containers: [{ [resource]: count }] }));
    const { events } = world.close(START, START + hours * HOUR);
    expect(total(events, METRICS.gpu)).toBe(published(begins));
  }
});
