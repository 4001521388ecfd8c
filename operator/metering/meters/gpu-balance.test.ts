import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { gpusOf, UNITS_PER_GPU } from '../../model/gpu-units.ts';
import type { Diagnostics, GpuBalance } from './meter-reports.ts';
import {
  A10G,
  gpuNode,
  H100,
  N1,
  N2,
  N3,
  N4,
  N5,
  N6,
  type NodeFixture,
  variant,
} from './testing/gpu-nodes.ts';
import { cluster, iso, pod } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type World } from './testing/world.ts';

const GPU = 'nvidia.com/gpu';
const MIG = 'nvidia.com/mig-1g.10gb';
const DOWN = {
  key: 'node.kubernetes.io/unreachable',
  effect: 'NoExecute',
};

/** GPU-hours of a balance. */
function hours(balance: GpuBalance): Record<string, number> {
  const { installed, billed, idle, downtime, system, overlap, unaccounted } = balance;
  const amounts = { installed, billed, idle, downtime, system, overlap, unaccounted };
  return Object.fromEntries(
    Object.entries(amounts)
      .map(([key, amount]) => [key, Math.round(gpusOf(amount / BigInt(HOUR)) * 1e6) / 1e6] as const)
      .filter(([, value]) => value !== 0),
  );
}

function balances(build: (world: World) => void): GpuBalance[] {
  const world = createWorld();
  world.clusters([
    cluster('a'),
    cluster('b', {}, { namespace: 'tenant-b' }),
    cluster('x', {}, { namespace: 'tenant-x', excluded: true }),
  ]);
  build(world);
  return world.close(START, START + HOUR).diagnostics.gpuBalances;
}

const querying = (name: string, count: number, resource = GPU, namespace = 'tenant-a') =>
  pod({
    name,
    namespace,
    node: 'n1',
    labels:
      namespace === 'gpu-operator' ? {} : { 'vcluster.loft.sh/managed-by': namespace.slice(7) },
    containers: [{ [resource]: count }],
  });

const named = (fixture: NodeFixture): NodeFixture => ({ ...fixture, name: 'n1' });
const dedicated = { 'vcluster.loft.sh/managed-by': 'tenant-a' };

/**
 * The shares of all tenants and of none sum to what is installed, and nobody uses more than is
 * healthy.
 */
function expectShares({
  gpuBalances,
  gpuShares,
}: Pick<Diagnostics, 'gpuBalances' | 'gpuShares'>): void {
  const sum = <T>(rows: Iterable<T>, of: (row: T) => bigint): bigint =>
    [...rows].reduce((total, row) => total + of(row), 0n);
  const shares = [...gpuShares.values()];
  for (const type of new Set([...gpuBalances, ...shares].map((row) => row.type))) {
    const rows = gpuBalances.filter((row) => row.type === type);
    const own = shares.filter((row) => row.type === type);
    const installed = sum(rows, (row) => row.installed);
    expect(sum(own, ({ delivered }) => delivered)).toBe(installed);
    expect(sum(own, ({ healthy }) => healthy)).toBe(installed - sum(rows, (row) => row.downtime));
  }
  for (const { delivered, healthy, reserved, inUse } of shares) {
    expect(inUse >= 0n && inUse <= healthy && healthy <= delivered).toBe(true);
    expect(reserved >= 0n && reserved <= delivered).toBe(true);
  }
}

describe('all installed GPU time is accounted for', () => {
  const cases: [string, (world: World) => void, Record<string, number>][] = [
    [
      'billed and idle',
      (world) => {
        world.node(gpuNode(N1));
        world.pod(querying('p', 3));
      },
      { installed: 8, billed: 3, idle: 5 },
    ],
    [
      'what is nobody’s is system',
      (world) => {
        world.node(gpuNode(N1));
        world.pod(querying('validator', 1, GPU, 'gpu-operator'));
        world.pod(querying('free', 2, GPU, 'tenant-x'));
        world.pod(querying('p', 3));
      },
      { installed: 8, billed: 3, system: 3, idle: 2 },
    ],
    [
      'a pod that has not started has nothing yet',
      (world) => {
        world.node(gpuNode(N1));
        world.pod(
          pod({
            name: 'p',
            node: 'n1',
            phase: 'Pending',
            startedAt: null,
            containers: [{ [GPU]: 3 }],
          }),
        );
      },
      { installed: 8, idle: 8 },
    ],
    [
      'sevenths of a GPU',
      (world) => {
        world.node(gpuNode(named(N4)));
        world.pod(querying('p', 14, MIG));
      },
      { installed: 8, billed: 2, idle: 6 },
    ],
    [
      'a shared node that is down',
      (world) => {
        world.node(gpuNode(variant(N1, { taints: [{ ...DOWN, timeAdded: iso(START - 1000) }] })));
        world.pod(querying('p', 3));
      },
      { installed: 8, downtime: 8 },
    ],
    [
      'pods go on while GPUs are missing; only unallocated ones are downtime',
      (world) => {
        world.node(gpuNode(variant(N1, { allocatable: { [GPU]: '0' } })));
        world.pod(querying('p', 3));
      },
      { installed: 8, billed: 3, downtime: 5 },
    ],
    [
      'a dedicated node, with another tenant’s pods as overlap',
      (world) => {
        world.node(gpuNode(variant(N1, { labels: dedicated, allocatable: { [GPU]: '7' } })));
        world.pod(querying('own', 4));
        world.pod(querying('foreign', 2, GPU, 'tenant-b'));
      },
      { installed: 8, billed: 7, downtime: 1, overlap: 2 },
    ],
    [
      'more in use than is known to be installed counts as installed',
      (world) => {
        world.node(gpuNode(variant(N6, { name: 'n1', capacity: { 'amd.com/gpu': '0' } })));
        world.pod(querying('p', 3, 'amd.com/gpu'));
      },
      { installed: 3, billed: 3 },
    ],
  ];
  test.each(cases)('%s', (_name, build, want) => {
    const rows = balances(build);
    expect(rows).toHaveLength(1);
    expect(rows.map(hours)).toEqual([want]);
  });

  test('a node that goes takes its GPUs with it, and what lingers on it is still accounted for', () => {
    const rows = balances((world) => {
      world.node(gpuNode(N1));
      world.pod(querying('p', 4));
      world.nodeGone(gpuNode(N1), START + HOUR / 2);
    });
    expect(rows.map(hours)).toEqual([{ installed: 6, billed: 4, idle: 2 }]);
  });

  test('a node without GPUs has no balance', () => {
    const rows = balances((world) => world.node(gpuNode({ name: 'n1', capacity: { cpu: '8' } })));
    expect(rows).toEqual([]);
  });
});

describe('in any cluster', () => {
  const shapes: readonly (readonly [NodeFixture, string, number])[] = [
    [N1, GPU, 8],
    [N2, GPU, 16],
    [variant(N2, { labels: { 'nvidia.com/gpu.replicas': '3' } }), GPU, 12],
    [N3, 'nvidia.com/gpu.shared', 16],
    [N4, MIG, 56],
    [N5, GPU, 56],
    [N6, 'amd.com/gpu', 8],
  ];
  const second = fc.integer({ min: -600, max: 7200 });
  const change = fc.record({
    at: second,
    what: fc.constantFrom('taint', 'heal', 'dead plugin', 'lost GPU', 'dedicate', 'free', 'remove'),
    reported: fc.integer({ min: 0, max: 90 }),
  });
  const node = fc.record({
    shape: fc.integer({ min: 0, max: shapes.length - 1 }),
    dedicated: fc.boolean(),
    changes: fc.array(change, { maxLength: 5 }),
  });
  const podShape = fc.record({
    node: fc.integer({ min: 0, max: 3 }),
    namespace: fc.constantFrom('tenant-a', 'tenant-b', 'tenant-x', 'gpu-operator'),
    count: fc.integer({ min: 1, max: 9 }),
    start: second,
    life: fc.integer({ min: 1, max: 5000 }),
    delay: fc.integer({ min: 0, max: 90 }),
  });
  const scenario = fc.record({
    nodes: fc.array(node, { minLength: 1, maxLength: 3 }),
    pods: fc.array(podShape, { maxLength: 8 }),
    lifetime: fc.constantFrom('running' as const, 'scheduled' as const),
  });

  type Scenario = typeof scenario extends fc.Arbitrary<infer T> ? T : never;

  const at = (seconds: number): number => START + seconds * 1000;

  /** All changes, in the order in which they are reported. */
  function happenings({ nodes, pods }: Scenario) {
    const list: { readonly at: number; readonly report: (world: World) => void }[] = [];
    for (const [index, { shape, dedicated: own, changes }] of nodes.entries()) {
      const [base, resource] = shapes[shape] ?? [N1, GPU];
      let fixture: NodeFixture = variant(base, { name: `n${index}`, labels: own ? dedicated : {} });
      const first = fixture;
      list.push({ at: at(-900), report: (world) => world.node(gpuNode(first), at(-900)) });
      for (const { at: when, what, reported } of changes.toSorted((a, b) => a.at - b.at)) {
        fixture = changed(fixture, resource, what, at(when - reported));
        const object = gpuNode(fixture);
        const removed = what === 'remove';
        list.push({
          at: at(when),
          report: (world) =>
            removed ? world.nodeGone(object, at(when)) : world.node(object, at(when)),
        });
        if (removed) break;
      }
    }
    for (const [index, shape] of pods.entries()) {
      const home = nodes[shape.node];
      const [, resource] = shapes[home?.shape ?? 0] ?? [N1, GPU];
      const labels: Record<string, string> =
        shape.namespace === 'gpu-operator'
          ? {}
          : { 'vcluster.loft.sh/managed-by': shape.namespace.slice(7) };
      const fixture = {
        name: `p${index}`,
        namespace: shape.namespace,
        node: `n${shape.node}`,
        labels,
        containers: [{ [resource]: shape.count }],
        createdAt: at(shape.start - 5),
        startedAt: at(shape.start),
      };
      const end = shape.start + shape.life;
      const finished = { ...fixture, phase: 'Succeeded', finishedAt: at(end) };
      const started = at(shape.start + shape.delay);
      const ended = Math.max(started, at(end + shape.delay));
      const bound = { ...fixture, phase: 'Pending', startedAt: null };
      list.push({
        at: at(shape.start - 5),
        report: (world) => world.pod(pod(bound), at(shape.start - 5)),
      });
      list.push({ at: started, report: (world) => world.pod(pod(fixture), started) });
      list.push({ at: ended, report: (world) => world.pod(pod(finished), ended) });
    }
    return list.toSorted((a, b) => a.at - b.at);
  }

  function changed(
    fixture: NodeFixture,
    resource: string,
    what: string,
    since: number,
  ): NodeFixture {
    switch (what) {
      case 'taint':
        return variant(fixture, { taints: [{ ...DOWN, timeAdded: iso(since) }] });
      case 'heal':
        return variant(fixture, { taints: [], allocatable: {} });
      case 'dead plugin':
        return variant(fixture, { allocatable: { [resource]: '0' } });
      case 'lost GPU':
        return variant(fixture, { allocatable: { [resource]: '5' } });
      case 'dedicate':
        return variant(fixture, { labels: dedicated });
      case 'free':
        return variant(fixture, { labels: { 'vcluster.loft.sh/managed-by': null } });
      default:
        return { ...fixture };
    }
  }

  test('every GPU-second is accounted for, and none is billed twice', () => {
    fc.assert(
      fc.property(scenario, (generated) => {
        const world = createWorld();
        const { lifetime: podLifetime } = generated;
        world.clusters([
          cluster('a', { podLifetime }),
          cluster('b', { podLifetime }, { namespace: 'tenant-b' }),
          cluster('x', {}, { namespace: 'tenant-x', excluded: true }),
        ]);
        const events = happenings(generated);
        for (const start of [START, START + HOUR]) {
          const end = start + HOUR;
          while (events[0] !== undefined && events[0].at <= end) events.shift()?.report(world);
          const { diagnostics, events: billed } = world.close(start, end);
          for (const row of diagnostics.gpuBalances) {
            expect(row.unaccounted, `${row.node} ${JSON.stringify(hours(row))}`).toBe(0n);
            const { installed, billed: charged, idle, downtime, system } = row;
            for (const part of [installed, charged, idle, downtime, system]) {
              expect(part).toBeGreaterThanOrEqual(0n);
            }
          }
          expectShares(diagnostics);
          // Reversals of late facts are separate; they begin with the second window.
          if (start > START) continue;
          const charged = diagnostics.gpuBalances.reduce(
            (sum, row) => sum + row.billed + row.overlap,
            0n,
          );
          const inHours = Number((charged * 1_000_000n) / (UNITS_PER_GPU * BigInt(HOUR))) / 1e6;
          const down = total(billed, 'tenant_gpu_downtime_hours');
          const sum = total(billed, 'tenant_gpu_hours');
          expect(sum).toBeLessThanOrEqual(inHours + 1e-5);
          expect(sum + down).toBeGreaterThanOrEqual(inHours - 1e-5);
        }
      }),
      { numRuns: 300 },
    );
  });
});

test('models of different vendors in one node are balanced separately', () => {
  const both = variant(N1, {
    labels: { 'amd.com/gpu.product-name': 'AMD_Instinct_MI300X_OAM' },
    capacity: { 'amd.com/gpu': '2' },
  });
  const rows = balances((world) => {
    world.node(gpuNode(both));
    world.node(gpuNode(N2));
    world.pod(querying('p', 1, 'amd.com/gpu'));
  });
  expect(rows.map((row) => [row.node, row.type, hours(row)])).toEqual([
    ['n1', H100, { installed: 8, idle: 8 }],
    ['n1', 'AMD_Instinct_MI300X_OAM', { installed: 2, billed: 1, idle: 1 }],
    ['n2', A10G, { installed: 4, idle: 4 }],
  ]);
});

test('the report has the GPUs of each tenant, of none, and what is down', () => {
  const world = createWorld();
  world.clusters([cluster('a'), cluster('b', {}, { namespace: 'tenant-b' })]);
  world.node(gpuNode(variant(N1, { labels: dedicated, allocatable: { [GPU]: '7' } })));
  world.pod(querying('own', 4));
  world.pod(querying('foreign', 2, GPU, 'tenant-b'));
  world.node(gpuNode(variant(N1, { name: 'n9' })));
  const labels = { 'vcluster.loft.sh/managed-by': 'b' };
  const namespace = 'tenant-b';
  world.pod(pod({ name: 'p', namespace, node: 'n9', labels, containers: [{ [GPU]: 3 }] }));
  const taints = [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' }];
  world.node(gpuNode(variant(N2, { name: 'down', taints })));
  const { diagnostics } = world.close(START, START + HOUR);
  expectShares(diagnostics);
  const rows = [...diagnostics.gpuShares.values()].map(
    ({ tenant, delivered, healthy, reserved, inUse }) => [
      tenant === undefined,
      ...[delivered, healthy, reserved, inUse].map((amount) => gpusOf(amount / BigInt(HOUR))),
    ],
  );
  expect(rows).toContainEqual([false, 8, 7, 8, 4]);
  expect(rows).toContainEqual([false, 3, 3, 3, 3]);
  expect(rows).toContainEqual([true, 5, 5, 0, 0]);
  // A node that is down counts as delivered, to no tenant.
  expect(rows).toContainEqual([true, 4, 0, 0, 0]);
});
