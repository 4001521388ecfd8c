import type { BudgetCounts } from '../../model/budget.ts';
import { signedFromNanos } from '../../model/decimal.ts';
import { currencyDigits, moneyText } from '../../model/pricing/money.ts';
import type { TimeRange } from '../../model/window.ts';
import type { BudgetAccount } from './account.ts';
import type { GivenBudget } from './budget-of.ts';
import { levelsOf } from './levels.ts';
import { minorUnits } from './unit.ts';
import type { BudgetMemory } from './evaluate.ts';

/** How a tenant's budget stands at a moment. Amounts are in the units of the budget. */
export interface BudgetState extends GivenBudget {
  readonly tenant: string;
  readonly period: TimeRange;
  /** Of a prepaid balance all that was credited. */
  readonly limit: bigint;
  /** By the closed windows. */
  readonly used: bigint;
  /** The same in the smallest units of a currency with so many digits, rounded line by line as costs are (docs/how-to/costs.md#rounding). */
  readonly usedInMinorUnits: (digits: number) => bigint;
  /**
   * When nothing is left if everything goes on; the moment itself where nothing is; undefined where the period ends
   * before, or 31 days do. Takes a while: it looks at every day until then.
   */
  readonly usedUpAt: () => number | undefined;
  /** Metrics of which something has no price in the budget's currency. */
  readonly uncounted: readonly string[];
  /** The billing state that follows from it. */
  readonly state: BudgetMemory['state'];
}

/** As far as the longest month. */
const LONGEST_FORECAST_MS = 31 * 86_400_000;

export function budgetStateOf(
  {
    tenant,
    account,
    period,
    credited = 0n,
    ...given
  }: GivenBudget & {
    readonly tenant: string;
    readonly account: BudgetAccount;
    readonly period: TimeRange;
    readonly credited?: bigint;
    readonly state: BudgetMemory['state'];
  },
  now: number,
): BudgetState {
  const { limit } = levelsOf(given.budget, credited);
  return {
    ...given,
    tenant,
    period,
    limit,
    used: account.used,
    usedInMinorUnits: (digits) => account.usedInMinorUnits(digits),
    usedUpAt: () => account.forecast(limit, now, Math.min(period.to, now + LONGEST_FORECAST_MS)),
    uncounted: account.uncounted,
  };
}

/** What is used and what is left of a budget for people: the two add up to the amount. */
export function amountTexts({
  limit,
  used,
  usedInMinorUnits,
  budget: { counts },
}: Pick<BudgetState, 'limit' | 'used' | 'usedInMinorUnits' | 'budget'>): Readonly<
  Record<'amount' | 'used' | 'left', string>
> {
  const amount = amountText(counts, limit);
  if (counts.kind === 'metric') {
    return { amount, used: signedFromNanos(used), left: signedFromNanos(limit - used) };
  }
  const digits = digitsOf(counts.currency);
  const [all, gone] = [minorUnits(limit, digits), usedInMinorUnits(digits)];
  return { amount, used: moneyText(gone, digits), left: moneyText(all - gone, digits) };
}

/** An amount in the units of a budget, for people. */
export function amountText(counts: BudgetCounts, amount: bigint): string {
  if (counts.kind === 'metric') return signedFromNanos(amount);
  const digits = digitsOf(counts.currency);
  return moneyText(minorUnits(amount, digits), digits);
}

function digitsOf(currency: string): number {
  return currencyDigits(currency) ?? 2;
}
