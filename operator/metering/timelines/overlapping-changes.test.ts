import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Bracket } from '../../kubernetes/source.ts';
import { NODE_SETTINGS, pod } from '../meters/testing/objects.ts';
import { START } from '../meters/testing/world.ts';
import { createObservation, type Observation } from './observation.ts';
import { type PodView, projectPod } from './pod.ts';

const BORN = 7;
const END = 100;
const NANOS = 10n ** 9n;
const at = (second: number): number => START + second * 1000;

/** A resize of a pod in place, at some second of a bracket. */
interface Resize {
  readonly cpu: number;
  readonly memory: number;
  readonly from: number;
  readonly until: number;
}

function view({ cpu, memory }: Pick<Resize, 'cpu' | 'memory'>): PodView {
  const containers = [{ cpu: String(cpu), memory: String(memory) }];
  const projected = projectPod(
    pod({ name: 'p', createdAt: at(0), startedAt: at(BORN), containers }),
  );
  if (projected === undefined) throw new Error('fixture without uid or name');
  return projected;
}

/** A live pod whose changes a resumed watch reports after an outage. */
function follow(resizes: readonly Resize[], gone?: Bracket): Observation {
  const observation = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
  });
  observation.pods.listed(() => true, 0);
  const reported = ({ from, until }: Bracket) => ({
    at: at(600),
    knownUntil: at(BORN + 1),
    late: false,
    happened: { from: at(from), until: at(until) },
  });
  const live = { at: at(BORN), knownUntil: at(BORN), late: false };
  let last = view({ cpu: 5, memory: 5 });
  observation.pods.upserted(last, undefined, live);
  for (const resize of resizes) {
    const next = view(resize);
    observation.pods.upserted(next, last, reported(resize));
    last = next;
  }
  if (gone !== undefined) observation.pods.deleted(last, reported(gone));
  return observation;
}

/** Cores and bytes that are billed at a second. */
function billedAt(observation: Observation, second: number): readonly [bigint, bigint] {
  const [timeline] = observation.pods.inNamespace('tenant-a');
  const span = timeline?.spans.find(({ from, to }) => from <= at(second) && at(second) < to);
  const { cpu = 0n, memory = 0n } = span?.state.requests ?? {};
  return [cpu / NANOS, memory / NANOS];
}

/**
 * The smallest amounts that it can have had at a second. Once its latest moment is reached, a
 * change counts.
 */
function certainAt(
  resizes: readonly Resize[],
  gone: Bracket | undefined,
  second: number,
): readonly [bigint, bigint] {
  const states: readonly Resize[] = [
    { cpu: 5, memory: 5, from: BORN, until: BORN },
    ...resizes,
    ...(gone === undefined ? [] : [{ cpu: 0, memory: 0, ...gone }]),
  ];
  const possible = states.filter(
    ({ from }, index) => from <= second && second < (states[index + 1]?.until ?? Infinity),
  );
  const least = (of: 'cpu' | 'memory') => BigInt(Math.min(...possible.map((state) => state[of])));
  return [least('cpu'), least('memory')];
}

const amounts = fc.record({
  cpu: fc.integer({ min: 1, max: 9 }),
  memory: fc.integer({ min: 1, max: 9 }),
});
const seconds = fc.integer({ min: BORN + 2, max: END - 2 });
/**
 * Versions are in order, and so are their earliest and latest moments; some brackets lie within
 * others.
 */
const unseenLife = fc
  .array(fc.tuple(amounts, seconds, seconds), { minLength: 1, maxLength: 6 })
  .chain((steps) => fc.tuple(fc.constant(steps), fc.boolean()))
  .map(([steps, isGone]) => {
    const ascending = (values: readonly number[]) => values.toSorted((a, b) => a - b);
    const from = ascending(steps.map(([, a, b]) => Math.min(a, b)));
    const until = ascending(steps.map(([, a, b]) => Math.max(a, b)));
    const all = steps.map(([amount], index) => ({
      ...amount,
      from: from[index] ?? 0,
      until: until[index] ?? 0,
    }));
    const last = all.at(-1);
    const gone = isGone && last !== undefined ? { from: last.from, until: last.until } : undefined;
    return { resizes: gone === undefined ? all : all.slice(0, -1), gone };
  });

test('changes whose order is uncertain are billed the least of what the pod can have had', () => {
  fc.assert(
    fc.property(unseenLife, ({ resizes, gone }) => {
      const observation = follow(resizes, gone);
      for (let second = BORN; second < END; second += 1) {
        expect([second, ...billedAt(observation, second)]).toEqual([
          second,
          ...certainAt(resizes, gone, second),
        ]);
      }
    }),
  );
});

test('a pod that requests less CPU and more memory unobserved is never billed its old CPU beyond what it had', () => {
  // The API server receives first the request, a moment later the allocation.
  const requested = { cpu: 5, memory: 8, from: 30, until: 40 };
  const granted = { cpu: 2, memory: 8, from: 31, until: 41 };
  const observation = follow([requested, granted]);
  expect([29, 30, 31, 39, 40, 41].map((second) => billedAt(observation, second))).toEqual([
    [5n, 5n],
    [5n, 5n],
    [2n, 5n],
    [2n, 5n],
    [2n, 8n],
    [2n, 8n],
  ]);
});

test('changes that follow each other closely have their common uncertainty', () => {
  const [timeline] = follow([
    { cpu: 2, memory: 5, from: 30, until: 40 },
    { cpu: 5, memory: 5, from: 35, until: 45 },
  ]).pods.inNamespace('tenant-a');
  const widths = timeline?.spans.map(({ uncertainFrom = 0, uncertainTo = 0 }) =>
    Math.max(uncertainFrom, uncertainTo),
  );
  expect(Math.max(...(widths ?? []))).toBe(15_000);
});
