import type { Budget } from '../../model/budget.ts';

/** The used amounts at which something happens, in the units of the budget. */
export interface BudgetLevels {
  readonly limit: bigint;
  /** In the order of the budget's thresholds. */
  readonly thresholds: readonly { readonly percent: number; readonly level: bigint }[];
}

/**
 * The limit and the thresholds of a budget.
 * 1. A month or rolling days: the limit is the budget's amount.
 * 2. A prepaid balance: the limit is the sum of all credits. Thresholds are about what is left: 80
 *    percent is reached when a fifth of the budget's amount is left.
 * 3. A prepaid balance without credits (`credited` is 0): nothing is left, and there are no
 *    thresholds.
 */
export function levelsOf(
  { amount, period, thresholds }: Pick<Budget, 'amount' | 'period' | 'thresholds'>,
  credited: bigint,
): BudgetLevels {
  const limit = period.kind === 'prepaid' ? credited : amount;
  if (period.kind === 'prepaid' && credited === 0n) return { limit, thresholds: [] };
  return {
    limit,
    thresholds: thresholds.map((percent) => {
      const left = (amount * BigInt(100 - percent)) / 100n;
      return { percent, level: limit - left };
    }),
  };
}
