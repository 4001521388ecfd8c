import type { BudgetCounts } from '../../model/budget.ts';
import { signedFromNanos } from '../../model/decimal.ts';
import { currencyDigits, moneyText } from '../../model/pricing/money.ts';
import type { TimeRange } from '../../model/window.ts';
import type { BudgetAccount } from './account.ts';
import type { GivenBudget } from './budget-of.ts';
import { levelsOf } from './levels.ts';
import { minorUnits } from './unit.ts';
import type { BudgetMemory } from './evaluate.ts';

/** The state of a tenant's budget at a moment. Amounts are in the units of the budget. */
export interface BudgetState extends GivenBudget {
  readonly tenant: string;
  readonly period: TimeRange;
  /** The amount of the budget; for a prepaid balance the sum of all credits. */
  readonly limit: bigint;
  /** Usage of the closed windows. */
  readonly used: bigint;
  /**
   * As `used`, in the smallest units of a currency with this many digits. Rounded line by line, as
   * costs are (docs/how-to/costs.md#rounding).
   */
  readonly usedInMinorUnits: (digits: number) => bigint;
  /**
   * Returns when nothing is left if everything goes on; now if nothing is left already. Undefined
   * if the period, or 31 days, end earlier. Slow: evaluates every day until then.
   */
  readonly usedUpAt: () => number | undefined;
  /** Metrics with usage that has no price in the budget's currency. */
  readonly uncounted: readonly string[];
  /** The billing state that the budget gives the tenant. */
  readonly state: BudgetMemory['state'];
}

/** The longest month. */
const LONGEST_FORECAST_MS = 31 * 86_400_000;

/** The state of a budget at `now`, from its account and its credits. */
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

/** Decimal texts for people: amount, used and left. Used and left add up to the amount. */
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

/** Decimal text for people of an amount in the units of a budget. */
export function amountText(counts: BudgetCounts, amount: bigint): string {
  if (counts.kind === 'metric') return signedFromNanos(amount);
  const digits = digitsOf(counts.currency);
  return moneyText(minorUnits(amount, digits), digits);
}

function digitsOf(currency: string): number {
  return currencyDigits(currency) ?? 2;
}
