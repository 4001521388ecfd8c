import { describe, expect, test } from 'vitest';
import { gpusOf } from '../../model/gpu-units.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { projectPod } from '../timelines/pod.ts';
import type { GpuBalance } from './meter-reports.ts';
import { attributesOf, GPU } from './testing/claim-scene.ts';
import { gpuNode, H100, N1, N2, N7, variant } from './testing/gpu-nodes.ts';
import { fractionPod, KAI, reservation } from './testing/kai.ts';
import { cluster } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type WorldOptions } from './testing/world.ts';

const hours = (amount: bigint): number => Math.round(gpusOf(amount / BigInt(HOUR)) * 1e6) / 1e6;
const reported = ({ installed, billed, idle, downtime, system, unaccounted }: GpuBalance) =>
  Object.fromEntries(
    Object.entries({ installed, billed, idle, downtime, system, unaccounted })
      .map(([name, amount]) => [name, hours(amount)] as const)
      .filter(([, amount]) => amount !== 0),
  );

function hourOf(pods: readonly RawObject[], node = gpuNode(KAI), options: WorldOptions = {}) {
  const world = createWorld(options);
  world.clusters([cluster('a', { privateNodeBilling: 'usage' })]);
  world.node(node);
  for (const object of pods) world.pod(object);
  return world.close(START, START + HOUR);
}

const quarter = { 'gpu-fraction': '0.25' };

describe('parts of GPUs that annotations request', () => {
  test('G52: a quarter of a GPU', () => {
    const { events, explanations } = hourOf([fractionPod('p', quarter, ['g1']), reservation('g1')]);
    const shared = ['0.25', `${H100}-fraction`, H100, 'fraction', 'on-demand', 'shared'];
    expect(attributesOf(events)).toEqual(shared);
    expect(events.find(({ metric }) => metric === GPU)?.properties).toMatchObject({
      gpu_devices: 1,
      pods: 1,
    });
    const gpus = explanations.flatMap(({ subjects }) => subjects.flatMap((one) => one.gpus ?? []));
    expect(gpus.map(({ sharedBy }) => sharedBy)).toEqual(['gpu-fraction 0.25, group g1']);
  });

  test.each<[string, Readonly<Record<string, string>>, readonly string[], number]>([
    ['G53: memory ÷ the device’s', { 'gpu-memory': '20480' }, ['g1'], 0.25],
    ['G53: more than the device has', { 'gpu-memory': '90000' }, ['g1'], 1],
    [
      'G54: of several devices',
      { ...quarter, 'gpu-fraction-num-devices': '3' },
      ['g1', 'g2', 'g3'],
      0.75,
    ],
    [
      'G54: memory of several devices',
      { 'gpu-memory': '40960', 'gpu-fraction-num-devices': '2' },
      ['g1', 'g2'],
      1,
    ],
    ['G56: in no group that can be seen', quarter, [], 0.25],
  ])('%s', (_name, annotations, groups, want) => {
    const pods = [
      fractionPod('p', annotations, groups),
      ...groups.map((group) => reservation(group)),
    ];
    const { events, diagnostics } = hourOf(pods);
    expect(total(events, GPU, { gpu_profile: 'fraction' })).toBe(want);
    expect(diagnostics.gpuBalances.map(reported)).toEqual([
      { installed: 8, billed: want, idle: 8 - want },
    ]);
  });

  test.each(['kai-resource-reservation', 'runai-reservation'])(
    'G55: what tenants share of a GPU and what is idle of it are one; its holder in %s is nobody’s',
    (namespace) => {
      const { diagnostics } = hourOf([
        fractionPod('p', quarter, ['g1']),
        fractionPod('q', { 'gpu-fraction': '0.5' }, ['g1']),
        reservation('g1', namespace),
        reservation('g2', namespace),
      ]);
      // Nobody shares the second.
      expect(diagnostics.gpuBalances.map(reported)).toEqual([
        { installed: 8, billed: 0.75, idle: 6.25, system: 1 },
      ]);
    },
  );

  test('G55: the holder is nobody’s before the first comes and after the last has gone', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(KAI));
    world.pod(reservation('g1'));
    const life = { createdAt: START + HOUR / 4, startedAt: START + HOUR / 4 };
    world.pod(fractionPod('p', quarter, ['g1'], life), START + HOUR / 4);
    const ended = { ...life, phase: 'Succeeded', finishedAt: START + HOUR / 2 };
    world.pod(fractionPod('p', quarter, ['g1'], ended), START + HOUR / 2);
    const { diagnostics } = world.close(START, START + HOUR);
    expect(diagnostics.gpuBalances.map(reported)).toEqual([
      { installed: 8, billed: 0.0625, idle: 7.1875, system: 0.75 },
    ]);
  });

  test.each<[string, Readonly<Record<string, string>>]>([
    ['no number', { 'gpu-fraction': 'half' }],
    ['nothing', { 'gpu-fraction': '0', 'gpu-memory': '0' }],
    ['more than a device', { 'gpu-fraction': '1.5' }],
    ['below zero', { 'gpu-fraction': '-0.5', 'gpu-memory': '-1' }],
    ['text without end', { 'gpu-fraction': '0.'.padEnd(200_000, '1') }],
  ])('an annotation that says %s requests nothing', (_name, annotations) => {
    expect(total(hourOf([fractionPod('p', annotations)]).events, GPU)).toBe(0);
  });

  test('a GPU that a resource names is not charged as a part besides', () => {
    const pods = [fractionPod('p', quarter, [], { containers: [{ 'nvidia.com/gpu': 1 }] })];
    expect(attributesOf(hourOf(pods).events).slice(0, 4)).toEqual(['1', H100, H100, 'full']);
  });

  test('on a node without GPUs there is nothing to share', () => {
    const { events } = hourOf([fractionPod('p', quarter)], gpuNode({ ...N7, name: 'n1' }));
    expect(total(events, GPU)).toBe(0);
  });

  test('G57: an annotation that is lowered while the pod runs lowers nothing', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(KAI));
    world.pod(fractionPod('p', { 'gpu-fraction': '0.5' }, ['g1']));
    world.pod(fractionPod('p', { 'gpu-fraction': '0.01' }, ['g1']), START + HOUR / 4);
    world.pod(fractionPod('p', {}), START + HOUR / 2);
    expect(total(world.close(START, START + HOUR).events, GPU)).toBe(0.5);
  });

  test('where the memory of a device is unknown the complete device counts', () => {
    const pods = [fractionPod('p', { 'gpu-memory': '1' })];
    expect(total(hourOf(pods, gpuNode(N1)).events, GPU)).toBe(1);
  });

  test('a part of a replica is that part of it', () => {
    const pods = [fractionPod('p', { 'gpu-fraction': '0.5' })];
    const { events } = hourOf(pods, gpuNode(variant(N2, { name: 'n1' })));
    expect(total(events, GPU)).toBe(0.125);
  });

  test('on nodes of a tenant cluster’s own the holder is the tenant’s, and covers the parts', () => {
    const pods = [fractionPod('p', quarter, ['g1']), reservation('g1')];
    const { events, diagnostics } = hourOf(pods, gpuNode(KAI), { inside: 'tenant-tenant-a-a' });
    expect(attributesOf(events)).toEqual(['1', H100, H100, 'full', 'on-demand', 'private_node']);
    expect(diagnostics.gpuBalances.map(reported)).toEqual([{ installed: 8, billed: 1, idle: 7 }]);
  });
});

test('labels beyond the limit are dropped', () => {
  const many = Array.from({ length: 5_000 }, (_, index) => `g${index}`);
  const view = projectPod(
    fractionPod('p', { ...quarter, 'gpu-fraction-num-devices': '999999' }, many),
  );
  expect(view?.gpuShares?.groups?.length).toBeLessThanOrEqual(64);
  expect(view?.gpuShares?.fraction?.count).toBeLessThanOrEqual(64);
});
