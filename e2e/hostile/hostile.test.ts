import { expect, test } from 'vitest';
import { CATALOGUE, planOf } from './attacks/plan.ts';
import { isSound, LONGEST_STALL_MS } from './observer/evaluation.ts';
import { PLANTED_TOGETHER, selfCheck } from './self-check.ts';
import { describeFailure, runSuite } from './suite.ts';

const RUNS = 8;
const SUITE_MS = 300_000;

test('a seed and a run always mean the same attacks, and every attack is drawn', () => {
  expect(planOf(7, 11)).toStrictEqual(planOf(7, 11));
  expect(planOf(7, 11)).not.toStrictEqual(planOf(8, 11));
  const drawn = Array.from({ length: 2_000 }, (_, run) => planOf(1, run)).flatMap(
    ({ attacks }) => attacks,
  );
  for (const [kind, attacks] of Object.entries(CATALOGUE)) {
    for (const { name } of attacks) {
      expect(drawn).toContainEqual(expect.objectContaining({ kind, name }));
    }
  }
});

test(
  'a hostile tenant ends, slows or robs the operator, or bends a bill of others',
  async () => {
    const failures: string[] = [];
    const plans = Array.from({ length: RUNS }, (_, run) => planOf(1, run));
    const { totals, memoryLimitMiB } = await runSuite(plans, {
      jobs: RUNS / 2,
      restartEvery: 2,
      failed: (failure) => failures.push(describeFailure(failure, 1)),
      progress: () => undefined,
    });
    expect(failures).toStrictEqual([]);
    expect(totals.worst_stall_ms).toBeLessThan(LONGEST_STALL_MS);
    expect(isSound(totals, memoryLimitMiB)).toBe(true);
  },
  SUITE_MS,
);

test(
  'a bug of each class is planted in the operator, and the suite does not count it',
  async () => {
    const [several = [], ended = []] = PLANTED_TOGETHER;
    const results = await selfCheck(() => undefined, [several, ended]);
    expect(results.map(({ planted, seen }) => [planted, seen])).toStrictEqual(
      [...several, ...ended].map((planted) => [planted, true]),
    );
  },
  SUITE_MS,
);
