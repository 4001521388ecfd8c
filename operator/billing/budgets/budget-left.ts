import type { Budget } from '../../model/budget.ts';
import type { UnclosedUsage } from './account.ts';
import type { BudgetMemory } from './evaluate.ts';
import { levelsOf } from './levels.ts';
import type { StoredBudget } from './make-accounts.ts';

/** What a tenant may still use at a moment. Amounts are in the units of the budget. */
export interface BudgetLeft {
  readonly budget: Budget;
  readonly limit: bigint;
  readonly used: bigint;
  /** True when nothing is left and the budget suspends its tenant for that. */
  readonly isSpent: boolean;
}

/**
 * Evaluates a budget together with usage that the ledger does not have yet. It is spent as
 * docs/how-to/budgets.md#at-the-limit says:
 * 1. Without a grace: at the limit.
 * 2. With an amount as grace: at the limit and that amount.
 * 3. With a time as grace: when the budget has suspended the tenant.
 */
export function budgetLeft(
  { budget, credited = 0n, account }: Pick<StoredBudget, 'budget' | 'credited' | 'account'>,
  given: {
    readonly open: readonly UnclosedUsage[];
    /** The state that the budget gives the tenant by the usage of the ledger. */
    readonly state: BudgetMemory['state'];
    /** False for a tenant that no budget suspends. */
    readonly maySuspend: boolean;
  },
  now: number,
): BudgetLeft {
  const { limit } = levelsOf(budget, credited);
  const used = account.usedAt(now, given.open);
  const { grace } = budget;
  const more = grace?.kind === 'amount' ? grace.amount : 0n;
  const isOver = used >= limit + more && (grace?.kind !== 'time' || given.state === 'suspended');
  const suspends = budget.atLimit === 'suspend' && given.maySuspend;
  return { budget, limit, used, isSpent: suspends && (isOver || given.state === 'suspended') };
}
