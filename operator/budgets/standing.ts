import { divideHalfUp, signedFromNanos } from '../model/decimal.ts';
import { COST_PLACES } from '../pricing/charges.ts';
import { currencyDigits, moneyText } from '../pricing/money.ts';
import type { TimeRange } from '../usage/usage-sums.ts';
import type { BudgetAccount } from './account.ts';
import type { GivenBudget } from './budget-of.ts';
import { levelsOf } from './levels.ts';
import type { BudgetMemory } from './verdict.ts';

/** How a tenant's budget stands at a moment. Amounts are in the units of the budget. */
export interface BudgetStanding extends GivenBudget {
  readonly tenant: string;
  readonly period: TimeRange;
  /** Of a prepaid balance all that was credited. */
  readonly limit: bigint;
  /** By the closed windows. */
  readonly used: bigint;
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

export function standingOf(
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
): BudgetStanding {
  const { limit } = levelsOf(given.budget, credited);
  return {
    ...given,
    tenant,
    period,
    limit,
    used: account.used,
    usedUpAt: () => account.forecast(limit, now, Math.min(period.to, now + LONGEST_FORECAST_MS)),
    uncounted: account.uncounted,
  };
}

/** What is used and what is left of a budget for people: the two add up to the amount. */
export function amountTexts({
  limit,
  used,
  budget: { counts },
}: Pick<BudgetStanding, 'limit' | 'used' | 'budget'>): Readonly<
  Record<'amount' | 'used' | 'left', string>
> {
  if (counts.kind === 'metric') {
    const text = signedFromNanos;
    return { amount: text(limit), used: text(used), left: text(limit - used) };
  }
  const digits = currencyDigits(counts.currency) ?? 2;
  const text = (minorUnits: bigint): string => moneyText(minorUnits, digits);
  const [all, gone] = [minorUnits(limit, digits), minorUnits(used, digits)];
  return { amount: text(all), used: text(gone), left: text(all - gone) };
}

/** Rounded half away from zero, as a line of an invoice is. */
function minorUnits(amount: bigint, digits: number): bigint {
  const size = divideHalfUp(amount < 0n ? -amount : amount, 10n ** BigInt(COST_PLACES - digits));
  return amount < 0n ? -size : size;
}
