import type { BudgetCounts, BudgetPeriod } from './budget.ts';

/** That a tenant has reached a threshold of its budget, for receivers (docs/how-to/budgets.md#thresholds). */
export interface BudgetNotice {
  /** Of this threshold in this period: the same at every attempt, and of no other. */
  readonly id: string;
  readonly tenant: string;
  /** Of the amount; of a prepaid balance, 100 less the percentage that is left. */
  readonly percent: number;
  /** Decimal text, in the currency or in the unit of the metric. */
  readonly amount: string;
  readonly counts: BudgetCounts;
  readonly period: BudgetPeriod['kind'];
  /** Milliseconds since the epoch; absent of a prepaid balance. */
  readonly periodStart?: number;
  /** When it was seen, milliseconds since the epoch. */
  readonly at: number;
}
