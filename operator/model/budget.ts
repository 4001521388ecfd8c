/**
 * What a tenant may use (docs/how-to/budgets.md). Amounts are whole units of 10⁻²¹ of the currency, as costs are before they are
 * rounded, or whole nano-units of the metric.
 */
export interface Budget {
  readonly counts: BudgetCounts;
  /** What a period has; of a prepaid balance what it counts as full, which thresholds are parts of. */
  readonly amount: bigint;
  readonly period: BudgetPeriod;
  /** Percent of the amount, ascending, each above 0 and at most 100. */
  readonly thresholds: readonly number[];
  /** What follows when nothing is left. */
  readonly atLimit: 'none' | 'warn' | 'suspend';
  /** What is granted beyond the limit before a tenant is suspended; absent where nothing is. */
  readonly grace?: BudgetGrace;
}

/** Some time from the limit on, or some more in the units of the budget. */
export type BudgetGrace =
  | { readonly kind: 'time'; readonly ms: number }
  | { readonly kind: 'amount'; readonly amount: bigint };

/** What is added up: money, by the price books of the tenant's plans, or the quantity of a metric. */
export type BudgetCounts =
  | { readonly kind: 'money'; readonly currency: string }
  | { readonly kind: 'metric'; readonly metric: string };

/**
 * A calendar month of UTC; the UTC day that it is with as many before it that all are `days`; or a balance that
 * lasts until it is used up.
 */
export type BudgetPeriod =
  | { readonly kind: 'month' }
  | { readonly kind: 'rolling'; readonly days: number }
  | { readonly kind: 'prepaid' };
