/**
 * A tenant's budget (docs/how-to/budgets.md). Amounts are integers in 10⁻²¹ of the currency, the
 * precision of unrounded costs, or in nano-units of the metric.
 */
export interface Budget {
  readonly counts: BudgetCounts;
  /** Amount of one period. For a prepaid balance: the full balance that thresholds refer to. */
  readonly amount: bigint;
  readonly period: BudgetPeriod;
  /** Percent of the amount, ascending, each above 0 and at most 100. */
  readonly thresholds: readonly number[];
  /** What happens when nothing is left. */
  readonly atLimit: 'none' | 'warn' | 'suspend';
  /** Grace after the limit before a tenant is suspended; absent if there is none. */
  readonly grace?: BudgetGrace;
}

/** A time after the limit, or an additional amount in the units of the budget. */
export type BudgetGrace =
  | { readonly kind: 'time'; readonly ms: number }
  | { readonly kind: 'amount'; readonly amount: bigint };

/** What counts: money by the price books of the tenant's plans, or the quantity of a metric. */
export type BudgetCounts =
  | { readonly kind: 'money'; readonly currency: string }
  | { readonly kind: 'metric'; readonly metric: string };

/**
 * The budget's period: a UTC calendar month, the last `days` UTC days including today, or a prepaid
 * balance until it is used up.
 */
export type BudgetPeriod =
  | { readonly kind: 'month' }
  | { readonly kind: 'rolling'; readonly days: number }
  | { readonly kind: 'prepaid' };
