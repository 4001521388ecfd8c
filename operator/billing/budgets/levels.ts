import type { Budget } from '../../model/budget.ts';

/** How much may be used until something happens, in the units of the budget. */
export interface BudgetLevels {
  readonly limit: bigint;
  /** In the order of the budget's thresholds. */
  readonly thresholds: readonly { readonly percent: number; readonly level: bigint }[];
}

/**
 * What is told and stopped at. A month or some days have the budget's amount. A prepaid balance has all that was ever
 * credited, and its thresholds are about what is left: 80 percent is told when a fifth of the amount is left.
 * `credited` is 0 where nothing was: then nothing is left, and no threshold is reached by that.
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
