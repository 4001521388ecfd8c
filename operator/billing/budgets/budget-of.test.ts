import { expect, test } from 'vitest';
import type { TenantOverrideSettings } from '../../settings/settings.ts';
import { cluster } from '../../metering/meters/testing/objects.ts';
import type { Budget } from '../../model/budget.ts';
import { budgetsOf } from './budget-of.ts';

const budget = (amount: bigint): Budget => ({
  counts: { kind: 'money', currency: 'EUR' },
  amount,
  period: { kind: 'month' },
  thresholds: [],
  atLimit: 'warn',
});
const match = { kind: 'cluster', namespace: 'a', name: 'a' } as const;
const override = (name: string, own?: Budget): TenantOverrideSettings => ({
  name,
  createdAt: 0,
  match,
  ...(own && { budget: own }),
});

test("a tenant has the most specific override's budget, of its tenant clusters the first's that has one, else the default", () => {
  const overrides = [override('plan'), override('close', budget(1n)), override('far', budget(2n))];
  const clusters = [
    cluster('x', {}, { tenant: 'a', overrides: ['plan'] }),
    cluster('y', {}, { tenant: 'a', overrides: ['plan', 'close', 'far'] }),
    cluster('z', {}, { tenant: 'a', overrides: ['far'] }),
    cluster('b', {}, { tenant: 'b' }),
    cluster('c', {}, { tenant: 'c', overrides: ['far'], excluded: true }),
  ];
  expect([...budgetsOf(clusters, overrides, { defaultBudget: budget(9n) })]).toEqual([
    ['a', { budget: budget(1n), override: 'close' }],
    ['b', { budget: budget(9n) }],
  ]);
  expect([...budgetsOf(clusters, overrides, {}).keys()]).toStrictEqual(['a']);
});
