import type { BudgetCounts, BudgetPeriod } from './budget.ts';

/**
 * A notice to receivers that a tenant has reached a threshold of its budget
 * (docs/how-to/budgets.md#thresholds).
 */
export interface BudgetNotice {
  /** Unique for a threshold and period, and the same at every attempt. */
  readonly id: string;
  readonly tenant: string;
  /** Percent of the amount; for a prepaid balance, 100 minus the percentage that is left. */
  readonly percent: number;
  /** Decimal text, in the currency or in the unit of the metric. */
  readonly amount: string;
  readonly counts: BudgetCounts;
  readonly period: BudgetPeriod['kind'];
  /** Milliseconds since the epoch; absent for a prepaid balance. */
  readonly periodStart?: number;
  /** When the operator noticed it, milliseconds since the epoch. */
  readonly at: number;
}
