import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import {
  type PlanHistory,
  planOn,
  planRecordKey,
  readPlanHistories,
  withPlan,
} from './plan-history.ts';

const DAYS = Array.from({ length: 20 }, (_, day) => `2026-11-${String(day + 1).padStart(2, '0')}`);

const polls = fc
  .array(fc.tuple(fc.constantFrom(...DAYS), fc.constantFrom('bronze', 'silver', 'gold')), {
    minLength: 1,
  })
  .map((all) => all.toSorted(([a], [b]) => (a < b ? -1 : Number(a > b))));

test('a change of plan prices days that were over', () => {
  fc.assert(
    fc.property(polls, (all) => {
      let history = withPlan([], 'free', '2026-01-01');
      const atEnd = new Map<string, string>();
      for (const [day, plan] of all) {
        const before = DAYS.filter((other) => other < day);
        const known = before.map((other) => planOn(history, other));
        history = withPlan(history, plan, day);
        expect(before.map((other) => planOn(history, other))).toStrictEqual(known);
        atEnd.set(day, plan);
      }
      for (const [day, plan] of atEnd) expect(planOn(history, day)).toBe(plan);
    }),
  );
});

test('what is no news is written again and again', () => {
  fc.assert(
    fc.property(polls, (all) => {
      const history = all.reduce<PlanHistory>((so, [day, plan]) => withPlan(so, plan, day), []);
      const [day, plan] = all.at(-1) ?? ['', ''];
      expect(withPlan(history, plan, day)).toBe(history);
      expect(withPlan(history, plan, '2027-01-01')).toBe(history);
    }),
  );
});

test('usage from before the first look has no plan', () => {
  expect(planOn(withPlan([], 'gold', '2026-11-21'), '2025-01-01')).toBe('gold');
  expect(planOn([], '2026-11-21')).toBeUndefined();
});

test('a change that waits for the end of the month is made all the same after it is called off', () => {
  const waiting = withPlan([['', 'silver']], 'gold', '2026-12-01');
  expect([planOn(waiting, '2026-11-30'), planOn(waiting, '2026-12-01')]).toStrictEqual([
    'silver',
    'gold',
  ]);
  expect(withPlan(waiting, 'silver', '2026-12-01')).toStrictEqual([['', 'silver']]);
  expect(withPlan(waiting, 'gold', '2026-11-21')).toStrictEqual([
    ['', 'silver'],
    ['2026-11-21', 'gold'],
  ]);
});

test('one damaged record takes the plans of all tenants away', async () => {
  const ledger = createMemoryLedger();
  await ledger.writeRecords([
    { key: planRecordKey('acme/eu'), value: '[["","gold"]]' },
    { key: planRecordKey('broken'), value: '[["","gold"' },
    { key: planRecordKey('empty'), value: '[]' },
    { key: planRecordKey('other'), value: '[[1,"gold"]]' },
  ]);
  const damaged: string[] = [];
  const histories = await readPlanHistories(ledger, (key) => damaged.push(key));
  expect([...histories]).toStrictEqual([['acme/eu', [['', 'gold']]]]);
  expect(damaged).toStrictEqual(['broken', 'empty', 'other'].map(planRecordKey));
});
