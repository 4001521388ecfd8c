import { describe, expect, test } from 'vitest';
import { minorUnits } from '../billing/budgets/unit.ts';
import type { BudgetState } from '../billing/budgets/budget-state.ts';
import type { Budget } from '../model/budget.ts';
import { type BudgetSpec, translateBudget } from './budget-settings.ts';
import { budgetFields } from './budget-status.ts';

const EUR = { kind: 'money', currency: 'EUR' } as const;
const month: Budget = {
  counts: EUR,
  amount: 10n ** 23n,
  period: { kind: 'month' },
  thresholds: [80, 100],
  atLimit: 'warn',
};

describe('a budget', () => {
  test('reaches the engine to the last digit', () => {
    const spec: BudgetSpec = { amount: '999999999999.000000001', currency: 'EUR', period: 'month' };
    expect(translateBudget('spec.budget', spec)).toEqual({
      kind: 'budget',
      budget: {
        counts: EUR,
        amount: 999_999_999_999_000_000_001n * 10n ** 12n,
        period: { kind: 'month' },
        thresholds: [80, 100],
        atLimit: 'warn',
      },
    });
    const rolling: BudgetSpec = {
      amount: '0.5',
      metric: 'tenant_gpu_hours',
      period: 'rolling',
      days: 30,
    };
    expect(translateBudget('spec.budget', rolling)).toMatchObject({
      budget: { amount: 500_000_000n, period: { kind: 'rolling', days: 30 } },
    });
  });

  test('reports everything that is wrong with it at once', () => {
    const wrong: BudgetSpec = { amount: '1e3', currency: 'XAU', period: 'rolling' };
    expect(translateBudget('spec.budget', wrong)).toStrictEqual({
      kind: 'problems',
      problems: [
        'spec.budget.currency: not an ISO 4217 currency: "XAU"; give a code such as USD or EUR',
        'spec.budget.days: not a number of days from 1 to 365: ""; give one',
        'spec.budget.amount: not an amount: "1e3"; write it as in 500 or 0.5, with up to 9 decimals',
      ],
    });
  });

  test.each<[Partial<BudgetSpec>, string]>([
    [{ currency: 'EUR', metric: 'a' }, 'give currency for an amount of money, or metric'],
    [{}, 'give currency for an amount of money, or metric'],
    [{ currency: 'QQQ' }, 'spec.budget.currency'],
    [{ metric: 'tenant_gpu_utilization' }, 'spec.budget.metric: informational'],
    [{ currency: 'EUR', days: 3 }, 'spec.budget.days: of a month: "3"; leave it out'],
    [{ currency: 'EUR', thresholds: [80, 0.5] }, 'spec.budget.thresholds: not a percentage'],
    [
      { currency: 'EUR', grace: { time: '1h' } },
      'spec.budget.grace: no effect without a suspension',
    ],
    [{ currency: 'EUR', atLimit: 'suspend', grace: {} }, 'spec.budget.grace: give time, or an'],
    [
      { currency: 'EUR', atLimit: 'suspend', grace: { time: '1x' } },
      'spec.budget.grace.time: not a duration: "1x"',
    ],
    [
      { currency: 'EUR', atLimit: 'suspend', grace: { amount: '-1' } },
      'spec.budget.grace.amount: not an amount: "-1"',
    ],
  ])('that cannot be is refused: %o', (change, message) => {
    const translated = translateBudget('spec.budget', { amount: '1', period: 'month', ...change });
    expect(JSON.stringify(translated)).toContain(message.replaceAll('"', String.raw`\"`));
  });
});

describe('the status of budgets', () => {
  const stateOf = (change: Partial<BudgetState>): BudgetState => ({
    tenant: 'acme',
    budget: month,
    period: { from: Date.UTC(2026, 10), to: Date.UTC(2026, 11) },
    limit: month.amount,
    used: 12_345n * 10n ** 18n + 1n,
    usedInMinorUnits: (digits) => minorUnits(change.used ?? 12_345n * 10n ** 18n + 1n, digits),
    usedUpAt: () => undefined,
    uncounted: [],
    state: 'active',
    ...change,
  });

  test('shows amounts with the digits of their currency, and what is left below zero', () => {
    const usedUpAt = Date.UTC(2026, 10, 21, 9);
    const more = stateOf({
      used: 101n * 10n ** 21n,
      usedUpAt: () => usedUpAt,
      uncounted: ['tenant_lb_hours'],
    });
    const { budgets } = budgetFields([stateOf({ tenant: 'b' }), more]);
    expect(budgets).toStrictEqual({
      total: 2,
      usedUp: 1,
      items: [
        {
          tenant: 'acme',
          amount: '100.00',
          used: '101.00',
          left: '-1.00',
          unit: 'EUR',
          periodStart: '2026-11-01T00:00:00Z',
          periodEnd: '2026-12-01T00:00:00Z',
          usedUpAt: '2026-11-21T09:00:00Z',
          state: 'active',
          uncounted: ['tenant_lb_hours'],
        },
        {
          tenant: 'b',
          amount: '100.00',
          used: '12.35',
          left: '87.65',
          unit: 'EUR',
          periodStart: '2026-11-01T00:00:00Z',
          periodEnd: '2026-12-01T00:00:00Z',
          state: 'active',
        },
      ],
    });
  });

  test('is not there where nobody has one', () => {
    expect(budgetFields([])).toStrictEqual({});
  });
});
