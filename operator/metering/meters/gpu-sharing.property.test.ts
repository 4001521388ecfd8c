import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { resourceClaim, result, slice, fullGpu } from './testing/claims.ts';
import { gpuNode, N4, variant } from './testing/gpu-nodes.ts';
import { EIGHT, HAMI, hamiGiven, hamiNode, MIB } from './testing/hami.ts';
import { fractionPod, KAI, reservation } from './testing/kai.ts';
import { cluster, iso, pod } from './testing/objects.ts';
import { createWorld, START, type World } from './testing/world.ts';

/**
 * One node for each combination of sharing: full GPUs with KAI's parts and MIG, and HAMi with
 * claims. What is billed is compared with the amounts of the scenario, computed here.
 */
const WINDOW = 60_000;
const WINDOWS = 4;
const GPU = 'nvidia.com/gpu';
const NANOS = 1_000_000_000n;

const at = (second: number): number => START + second * 1000;

/** Seconds after the start. */
interface Life {
  readonly start: number;
  readonly end: number;
}

const life: fc.Arbitrary<Life> = fc
  .record({ start: fc.integer({ min: 1, max: 200 }), length: fc.integer({ min: 1, max: 150 }) })
  .map(({ start, length }) => ({ start, end: start + length }));

interface Use {
  readonly life: Life;
  readonly tenant: 'a' | 'b';
  /** Sixteenths of a device. */
  readonly part: number;
  /** Index of the device. */
  readonly device: number;
}

const use: fc.Arbitrary<Use> = fc.record({
  life,
  tenant: fc.constantFrom('a' as const, 'b' as const),
  part: fc.integer({ min: 1, max: 15 }),
  device: fc.integer({ min: 0, max: 1 }),
});

const scenario = fc.record({
  fractions: fc.array(use, { maxLength: 5 }),
  wholes: fc.array(use, { maxLength: 3 }),
  migs: fc.array(use, { maxLength: 3 }),
  hamis: fc.array(use, { maxLength: 5 }),
  claims: fc.array(use, { maxLength: 5 }),
  down: fc.option(life, { nil: undefined }),
  unhealthy: fc.boolean(),
});
type Scenario = typeof scenario extends fc.Arbitrary<infer T> ? T : never;

interface Happening {
  readonly second: number;
  readonly report: (world: World, now: number) => void;
}

const labelsOf = (tenant: string) => ({
  'vcluster.loft.sh/managed-by': tenant,
  'vcluster.loft.sh/namespace': 'default',
});

type Lived = Parameters<typeof pod>[0];

/** A pod or claim from its start to its end. */
function running(
  { life: { start, end } }: Use,
  name: string,
  make: (fixture: Omit<Lived, 'node'>) => RawObject,
): readonly Happening[] {
  const begun = { name, createdAt: at(start), startedAt: at(start) };
  const ended = { ...begun, phase: 'Succeeded', finishedAt: at(end) };
  return [
    { second: start, report: (world, now) => world.pod(make(begun), now) },
    { second: end, report: (world, now) => world.pod(make(ended), now) },
  ];
}

const mixed = variant(KAI, { name: 'kai' });
const cut = variant(N4, {
  name: 'mig',
  labels: { 'nvidia.com/gpu.replicas': '1', 'nvidia.com/gpu.memory': '81920' },
  capacity: { 'nvidia.com/mig-1g.10gb': '42', [GPU]: '2' },
});
/** Four GPUs of HAMi, and four of a driver of claims. */
const halved = variant(HAMI, { name: 'hami', capacity: { [GPU]: '40' } });

function nodesOf(unhealthy: boolean, taints: readonly RawObject[]): readonly RawObject[] {
  const four = EIGHT.slice(0, 4).map((one, index) =>
    unhealthy && index === 3 ? { ...one, health: undefined } : one,
  );
  return [
    gpuNode({ ...mixed, taints }),
    gpuNode({ ...cut, taints }),
    hamiNode(four, { ...halved, taints }),
  ];
}

function happeningsOf({ fractions, wholes, migs, hamis, claims, down, unhealthy }: Scenario) {
  const taint = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' };
  const list: Happening[] = [];
  const nodes = (second: number, taints: readonly RawObject[]) => {
    for (const object of nodesOf(unhealthy, taints))
      list.push({ second, report: (world, now) => world.node(object, now) });
  };
  nodes(0, []);
  if (down !== undefined) {
    nodes(down.start, [{ ...taint, timeAdded: iso(at(down.start)) }]);
    nodes(down.end, []);
  }
  for (const [index, one] of fractions.entries()) {
    const node = index % 2 === 0 ? 'kai' : 'mig';
    const annotations = { 'gpu-fraction': String(one.part / 16) };
    list.push(
      ...running(one, `f${index}`, (fixture) =>
        fractionPod(fixture.name, annotations, [`${node}-g${one.device}`], {
          ...fixture,
          node,
          labels: labelsOf(one.tenant),
        }),
      ),
    );
    const held = { name: `r-${node}-${one.device}`, node };
    list.push({
      second: 0,
      report: (world) =>
        world.pod(reservation(`${node}-g${one.device}`, 'kai-resource-reservation', held)),
    });
  }
  for (const [index, one] of wholes.entries()) {
    list.push(
      ...running(one, `w${index}`, (fixture) =>
        pod({ ...fixture, node: 'kai', labels: labelsOf(one.tenant), containers: [{ [GPU]: 1 }] }),
      ),
    );
  }
  for (const [index, one] of migs.entries()) {
    const containers = [{ 'nvidia.com/mig-1g.10gb': one.part }];
    list.push(
      ...running(one, `m${index}`, (fixture) =>
        pod({ ...fixture, node: 'mig', labels: labelsOf(one.tenant), containers }),
      ),
    );
  }
  for (const [index, one] of hamis.entries()) {
    const memory = (MIB * one.part) / 16;
    list.push(
      ...running(one, `h${index}`, (fixture) =>
        hamiGiven(`GPU-${one.device},NVIDIA,${memory},0:;`, {
          ...fixture,
          node: 'hami',
          labels: labelsOf(one.tenant),
          containers: [{ [GPU]: 1, 'nvidia.com/gpumem': memory }],
        }),
      ),
    );
  }
  list.push({ second: 0, report: (world) => world.slice(claimSlice()) });
  for (const [index, one] of claims.entries()) {
    const name = `c${index}`;
    const labels = labelsOf(one.tenant);
    const consumedCapacity = { memory: '0', shares: String(one.part) };
    const devices = [result(`s${one.device}`, { pool: 'hami', shareID: name, consumedCapacity })];
    list.push({
      second: one.life.start,
      report: (world, now) =>
        world.resourceClaim(resourceClaim({ name, labels, devices, node: 'hami' }), now),
    });
    list.push(...running(one, name, (fixture) => pod({ ...fixture, node: 'hami', labels })), {
      second: one.life.end,
      report: (world, now) =>
        world.resourceClaimGone(resourceClaim({ name, labels, devices, node: 'hami' }), now),
    });
  }
  return list.toSorted((a, b) => a.second - b.second);
}

function claimSlice(): RawObject {
  const capacity = { memory: { value: '80Gi' }, shares: { value: '16' } };
  const devices = Array.from({ length: 4 }, (_, index) => ({
    ...fullGpu(index + 4),
    name: `s${index}`,
    allowMultipleAllocations: true,
    capacity,
  }));
  return slice({ pool: 'hami', devices });
}

/** Sixteenths × seconds while the shares of a device fit into it; undefined otherwise. */
function truthOf(scene: Scenario): bigint | undefined {
  const groups: readonly (readonly [
    uses: readonly Use[],
    key: (use: Use, index: number) => string,
  ])[] = [
    [scene.fractions, ({ device }, index) => `f${index % 2}-${device}`],
    [scene.hamis, ({ device }) => `h${device}`],
    [scene.claims, ({ device }) => `c${device}`],
  ];
  for (const [uses, key] of groups) {
    const byDevice = Map.groupBy(
      uses.map((one, index) => [key(one, index), one] as const),
      ([k]) => k,
    );
    for (const own of byDevice.values()) {
      for (const [
        ,
        {
          life: { start },
        },
      ] of own) {
        const now = own.filter(([, one]) => one.life.start <= start && start < one.life.end);
        if (now.reduce((sum, [, { part }]) => sum + part, 0) > 16) return undefined;
      }
    }
  }
  const up = ({ start, end }: Life): number => {
    const until = Math.min(end, (WINDOWS * WINDOW) / 1000);
    const { down } = scene;
    const lost =
      down === undefined ? 0 : Math.max(0, Math.min(until, down.end) - Math.max(start, down.start));
    return Math.max(0, until - start) - lost;
  };
  const sum = (uses: readonly Use[], units: (use: Use) => bigint): bigint =>
    uses.reduce((total, one) => total + units(one) * BigInt(up(one.life)), 0n);
  const sixteenths = ({ part }: Use): bigint => (UNITS_PER_GPU * BigInt(part)) / 16n;
  return (
    sum(scene.fractions, sixteenths) +
    sum(scene.hamis, sixteenths) +
    sum(scene.claims, sixteenths) +
    sum(scene.wholes, () => UNITS_PER_GPU) +
    sum(scene.migs, ({ part }) => (UNITS_PER_GPU / 7n) * BigInt(part))
  );
}

test('however GPUs are shared on a node, all of their time is billed, idle, down or nobody’s, once', () => {
  let compared = 0;
  fc.assert(
    fc.property(scenario, (scene) => {
      const world = createWorld({ windowMs: WINDOW });
      world.clusters([cluster('a'), cluster('b')]);
      const happenings = happeningsOf(scene);
      let billed = 0n;
      for (let index = 0; index < WINDOWS; index += 1) {
        const end = START + (index + 1) * WINDOW;
        while (happenings[0] !== undefined && at(happenings[0].second) <= end) {
          const { second, report } = happenings.shift() ?? {
            second: 0,
            report: () => undefined,
          };
          report(world, Math.max(at(second), START - 1000));
        }
        const { diagnostics, amounts } = world.close(end - WINDOW, end);
        billed += amounts.get('tenant_gpu_hours') ?? 0n;
        expect(diagnostics.gpuBalances.map(({ node }) => node).toSorted()).toEqual([
          'hami',
          'kai',
          'mig',
        ]);
        for (const row of diagnostics.gpuBalances) {
          const { installed, idle, downtime, system, unaccounted } = row;
          expect(unaccounted, row.node).toBe(0n);
          expect(row.billed + idle + downtime + system, row.node).toBe(installed);
          for (const part of [row.billed, idle, downtime, system]) {
            expect(part).toBeGreaterThanOrEqual(0n);
          }
          // Sharing never makes more GPUs than are installed.
          const eight = 8n * UNITS_PER_GPU * BigInt(WINDOW);
          expect(installed === eight || truthOf(scene) === undefined, row.node).toBe(true);
        }
      }
      const truth = truthOf(scene);
      if (truth === undefined) return;
      compared += 1;
      expect(billed).toBe(truth * 1000n * NANOS);
    }),
    { numRuns: 80 },
  );
  expect(compared).toBeGreaterThan(20);
});
