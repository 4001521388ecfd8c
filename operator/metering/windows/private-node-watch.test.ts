import { Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { createDiagnostics, type Diagnostics } from '../meters/meter-reports.ts';
import { gpuNode, N1, variant } from '../meters/testing/gpu-nodes.ts';
import { cluster } from '../meters/testing/objects.ts';
import { createWorld, HOUR, START } from '../meters/testing/world.ts';
import { createCollectorMetrics } from './collector-metrics.ts';
import { PrivateNodeWatch } from './private-node-watch.ts';

const inside = 'tenant-tenant-a-a';
const MINUTE = 60_000;
const DOWN = variant(N1, { taints: [{ key: 'node.kubernetes.io/unreachable' }] });

function setUp(mostDownPercent = 10) {
  const registry = new Registry();
  const metrics = createCollectorMetrics(registry);
  const logger = createCapturingLogger();
  const watch = new PrivateNodeWatch({ mostDownPercent: () => mostDownPercent, metrics, logger });
  const value = async (name: string): Promise<unknown> =>
    (await registry.getSingleMetric(`meterfeed_private_node_${name}`)?.get())?.values[0]?.value;
  return { watch, value, logger };
}

function worldOf(trust: 'tenant' | 'provider' = 'tenant') {
  const word = trust === 'provider' ? () => ({ labels: {} }) : undefined;
  const world = createWorld({ inside, ...(word && { providerStatement: word }) });
  world.clusters([cluster('a', { privateNodeTrust: trust })]);
  world.node(gpuNode(N1), START - HOUR);
  return world;
}

/** The hour after `START`, or a later one. */
const hourOf = (world: ReturnType<typeof worldOf>, hour = 0) => {
  const window = { start: START + hour * HOUR, end: START + (hour + 1) * HOUR };
  const found = world.close(window.start, window.end).diagnostics;
  return [window, new Map<string, Diagnostics>([['a', found]])] as const;
};

describe('a tenant whose word counts', () => {
  test('and whose nodes go down again and again is counted', async () => {
    const { watch, value } = setUp();
    const world = worldOf();
    for (const minute of [10, 20, 30]) {
      world.node(gpuNode(DOWN), START + minute * MINUTE);
      world.node(gpuNode(N1), START + (minute + 1) * MINUTE);
    }
    watch.note(...hourOf(world));
    expect(await value('flaps_total')).toBe(3);
    expect(await value('downtime_exceeded')).toBe(0);
    expect(watch.problems()).toEqual([]);
  });

  test('and whose nodes are down for more than the share that is allowed is shown until they are not', async () => {
    const { watch, value, logger } = setUp(10);
    const world = worldOf();
    world.node(gpuNode(DOWN), START + 30 * MINUTE);
    world.node(gpuNode(N1), START + 37 * MINUTE);
    watch.note(...hourOf(world));
    expect(await value('downtime_exceeded')).toBe(1);
    expect(watch.problems()).toEqual([
      'private nodes down for long: tenant cluster a: "11.7 %" of the last day',
    ]);
    watch.note(...hourOf(world, 1));
    expect(await value('downtime_exceeded')).toBe(0);
    expect(watch.problems()).toEqual([]);
    expect(logger.lines.filter((line) => line.includes('were down for'))).toHaveLength(2);
  });

  test.each([
    [0, 1],
    [11, 1],
    [12, 0],
    [100, 0],
  ])(
    'privateNodeDowntimePercent=%i: 11.7 %% of a day exceeds it: %i',
    async (percent, exceeded) => {
      const { watch, value } = setUp(percent);
      const world = worldOf();
      world.node(gpuNode(DOWN), START + 30 * MINUTE);
      world.node(gpuNode(N1), START + 37 * MINUTE);
      watch.note(...hourOf(world));
      expect(await value('downtime_exceeded')).toBe(exceeded);
      expect(watch.problems()).toHaveLength(exceeded);
    },
  );

  test('and reports late that a node was down is detected', async () => {
    const { watch, value } = setUp();
    const world = worldOf();
    watch.note(...hourOf(world));
    const timeAdded = new Date(START + HOUR - 30_000).toISOString();
    const taint = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded };
    world.node(gpuNode(variant(N1, { taints: [taint] })), START + HOUR + 10_000);
    watch.note(...hourOf(world, 1));
    expect(await value('flaps_total')).toBe(1);
    expect(watch.problems()).toEqual([
      'private nodes down for long: tenant cluster a: "50.4 %" of the last day',
    ]);
  });

  test.each([
    ['karpenter.sh/capacity-type', 'spot', 'n1: capacity type "on-demand" → "spot"'],
    ['nvidia.com/gpu.product', 'Tesla-T4', 'n1: GPU model "NVIDIA-H100-80GB-HBM3" → "Tesla-T4"'],
    ['nvidia.com/gpu.product', null, 'n1: GPU model "NVIDIA-H100-80GB-HBM3" → ""'],
    [
      'node.kubernetes.io/instance-type',
      't4.small',
      'n1: instance type "p5.48xlarge" → "t4.small"',
    ],
  ])('and sets %s to %s is named for a day', async (label, text, change) => {
    const { watch, value, logger } = setUp();
    const world = worldOf();
    world.node(gpuNode(variant(N1, { labels: { [label]: text } })), START + 20 * MINUTE);
    watch.note(...hourOf(world));
    expect(await value('relabels_total')).toBe(1);
    expect(watch.problems()).toEqual([`private node relabelled: tenant cluster a: node ${change}`]);
    expect(logger.lines.filter((line) => line.includes(change))).toHaveLength(1);
    for (let hour = 1; hour <= 25; hour += 1) watch.note(...hourOf(world, hour));
    expect(watch.problems()).toEqual([]);
  });

  test('and is dearer, or named at last, is no problem', () => {
    const { watch } = setUp();
    const world = worldOf();
    const spot = variant(N1, {
      name: 'n8',
      labels: { 'karpenter.sh/capacity-type': 'spot', 'nvidia.com/gpu.product': null },
    });
    world.node(gpuNode(spot), START - HOUR);
    world.node(gpuNode(variant(N1, { name: 'n8' })), START + 20 * MINUTE);
    watch.note(...hourOf(world));
    expect(watch.problems()).toEqual([]);
  });
});

test('where the provider’s word counts, what a tenant writes is no problem of anybody’s', async () => {
  const { watch, value } = setUp();
  const world = worldOf('provider');
  world.node(gpuNode(DOWN), START + 10 * MINUTE);
  watch.note(...hourOf(world));
  expect(await value('flaps_total')).toBe(0);
  expect(watch.problems()).toEqual([]);
});

test('many hostile tenant clusters do not fill the list, nor one of them the day of another', () => {
  const { watch } = setUp();
  const found = (id: number) => {
    const diagnostics = createDiagnostics();
    const changes = Array.from({ length: 100 }, (_, index) => `n${index}: sku "a" → "${id}"`);
    diagnostics.privateNodeReport = {
      nodeMs: 0,
      downMs: 0,
      flaps: 0,
      relabelled: new Set(changes),
    };
    return [`t${id}`, diagnostics] as const;
  };
  const all = new Map(Array.from({ length: 50 }, (_, id) => found(id)));
  watch.note({ start: START, end: START + HOUR }, all);
  const problems = watch.problems();
  expect(problems).toHaveLength(100);
  expect(problems.filter((line) => line.includes('cluster t0:'))).toHaveLength(20);
});
