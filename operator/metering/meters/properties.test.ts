import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { cluster, pod, workload } from './testing/objects.ts';
import { createWorld, START, type World } from './testing/world.ts';

const CPU = 'tenant_cpu_core_hours';
const MILLICORE = 1_000_000n;

/** A pod's life: seconds after START, and its requests. */
interface Life {
  readonly start: number;
  readonly seconds: number;
  readonly millicores: number;
  /** Delay with which its start and finish arrive, seconds. */
  readonly lag: number;
}

const lives = fc.array(
  fc.record<Life>({
    start: fc.integer({ min: 0, max: 280 }),
    seconds: fc.integer({ min: 0, max: 300 }),
    millicores: fc.integer({ min: 1, max: 5000 }),
    lag: fc.integer({ min: 0, max: 50 }),
  }),
  { minLength: 1, maxLength: 8 },
);

const HORIZON = 720;

/** Windows that cover `[0, HORIZON)` seconds, cut at random. */
const cuts = fc
  .uniqueArray(fc.integer({ min: 1, max: HORIZON - 1 }), { maxLength: 12 })
  .map((inner) => [0, ...inner.toSorted((a, b) => a - b), HORIZON]);

interface Step {
  readonly second: number;
  readonly apply: (world: World) => void;
}

function stepsOf(life: Life, index: number): Step[] {
  const { start, seconds, millicores, lag } = life;
  const shape = {
    name: `p${index}`,
    containers: [{ cpu: `${millicores}m` }],
    createdAt: START + start * 1000,
    startedAt: START + start * 1000,
  };
  const end = start + seconds;
  const finished = pod({ ...shape, phase: 'Succeeded', finishedAt: START + end * 1000 });
  const at = (second: number) => START + second * 1000;
  return [
    { second: start + lag, apply: (world) => world.pod(pod(shape), at(start + lag)) },
    { second: end + lag, apply: (world) => world.pod(finished, at(end + lag)) },
    { second: end + lag, apply: (world) => world.podGone(finished, at(end + lag)) },
  ];
}

/** Plays the steps against the windows as a collector would; returns the exact amounts charged. */
function play(
  steps: readonly Step[],
  bounds: readonly number[],
  clusters: readonly TenantCluster[],
) {
  const world = createWorld();
  world.clusters(clusters);
  const amounts: bigint[] = [];
  const pending = [...steps];
  for (const [index, end] of bounds.entries()) {
    const start = bounds[index - 1];
    if (start === undefined) continue;
    while (pending[0] !== undefined && pending[0].second <= end) pending.shift()?.apply(world);
    const closed = world.close(START + start * 1000, START + end * 1000);
    amounts.push(closed.amounts.get(CPU) ?? 0n);
  }
  return { amounts, reversed: world.reversals.reduce((sum, { amount }) => sum + amount, 0n) };
}

function truth(list: readonly Life[]): bigint {
  return list.reduce(
    (sum, { seconds, millicores }) => sum + BigInt(seconds * 1000) * BigInt(millicores) * MILLICORE,
    0n,
  );
}

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((a, b) => a + b, 0n);
const bySecond = (steps: readonly Step[]): Step[] => steps.toSorted((a, b) => a.second - b.second);

describe('however windows are cut', () => {
  test('a pod is charged for its lifetime exactly, late or not', () => {
    fc.assert(
      fc.property(lives, cuts, (list, bounds) => {
        const steps = bySecond(list.flatMap(stepsOf));
        const { amounts, reversed } = play(steps, bounds, [cluster('a')]);
        expect(sum(amounts) + reversed).toBe(truth(list));
      }),
    );
  });

  test('no window is charged below zero', () => {
    fc.assert(
      fc.property(lives, cuts, (list, bounds) => {
        const { amounts } = play(bySecond(list.flatMap(stepsOf)), bounds, [cluster('a')]);
        expect(amounts.every((amount) => amount >= 0n)).toBe(true);
      }),
    );
  });

  test('splitting a window changes no sum', () => {
    fc.assert(
      fc.property(lives, cuts, (list, bounds) => {
        const steps = bySecond(list.flatMap(stepsOf));
        const complete = play(steps, [0, HORIZON], [cluster('a')]);
        const parts = play(steps, bounds, [cluster('a')]);
        expect(sum(parts.amounts) + parts.reversed).toBe(sum(complete.amounts));
      }),
    );
  });
});

describe('however changes arrive', () => {
  test('the order between pods does not matter', () => {
    fc.assert(
      fc.property(
        lives,
        cuts,
        fc.array(fc.nat(), { minLength: 8, maxLength: 8 }),
        (list, bounds, keys) => {
          const prompt = list.map((life) => ({ ...life, lag: 0 }));
          const order = prompt
            .map((life, index) => ({ life, index, key: keys[index] ?? 0 }))
            .toSorted((a, b) => a.key - b.key);
          const shuffled = bySecond(order.flatMap(({ life, index }) => stepsOf(life, index)));
          const straight = bySecond(prompt.flatMap(stepsOf));
          const clusters = [cluster('a')];
          expect(play(shuffled, bounds, clusters)).toEqual(play(straight, bounds, clusters));
        },
      ),
    );
  });

  test('what a tenant cluster used before it became known is charged with its first window', () => {
    fc.assert(
      fc.property(lives, fc.integer({ min: 1, max: 90 }), (list, knownAt) => {
        const world = createWorld();
        world.clusters([]);
        const born = cluster('a', {}, { createdAt: START });
        const steps: Step[] = [
          ...list.map((life) => ({ ...life, lag: 0 })).flatMap(stepsOf),
          { second: 0, apply: (w) => w.workload(workload({ name: 'a' }), START) },
          { second: knownAt, apply: (w) => w.clusters([born], START + knownAt * 1000) },
        ];
        const pending = bySecond(steps);
        const amounts = { cpu: 0n, instance: 0n };
        for (let end = 60; end <= HORIZON; end += 60) {
          while (pending[0] !== undefined && pending[0].second <= end)
            pending.shift()?.apply(world);
          const closed = world.close(START + (end - 60) * 1000, START + end * 1000);
          amounts.cpu += closed.amounts.get(CPU) ?? 0n;
          amounts.instance += closed.amounts.get('tenant_instance_hours') ?? 0n;
        }
        expect(amounts.cpu).toBe(truth(list));
        expect(amounts.instance).toBe(BigInt(HORIZON * 1000) * 1_000_000_000n);
      }),
    );
  });
});

test('a reversal beyond its own charge reduces another of the same tenant and metric', () => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  const at = (second: number) => START + second * 1000;
  const life = { name: 'p', createdAt: at(0), startedAt: at(0), containers: [{ cpu: '1' }] };
  world.pod(pod(life), at(1));
  world.close(at(0), at(60));
  world.node(
    {
      metadata: { uid: 'uid-spot', name: 'spot', labels: { 'karpenter.sh/capacity-type': 'spot' } },
    },
    at(0),
  );
  world.pod(
    pod({ ...life, name: 'q', node: 'spot', createdAt: at(60), startedAt: at(60) }),
    at(61),
  );
  world.pod(pod({ ...life, phase: 'Succeeded', finishedAt: at(40) }), at(65));
  const { events } = world.close(at(60), at(120));
  expect(events.map((event) => event.dimensions?.['capacity_type'])).toEqual(['spot']);
  expect(events[0]?.quantity).toBe('0.011111111');
  expect(events[0]?.properties).toEqual({ basis: 'requests', carried_seconds: -20 });
  expect(world.reversals).toEqual([]);
});
