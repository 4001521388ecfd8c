import type { KubernetesEvent } from '../../kubernetes/events.ts';
import type { BudgetNotice } from '../../model/budget-notice.ts';
import { formatInstant } from '../../model/window.ts';
import { amountOf, type ReachedThreshold } from './budget-limiter.ts';
import { exactText } from './unit.ts';

/**
 * The Kubernetes Event of a reached threshold, for the object that gives the budget
 * (docs/how-to/budgets.md#thresholds).
 */
export function thresholdEvent(
  { tenant, percent, budget, since }: ReachedThreshold,
  regarding: KubernetesEvent['regarding'],
): KubernetesEvent {
  const what =
    budget.period.kind === 'prepaid'
      ? `has ${100 - percent} % of ${amountOf(budget)} or less left of its prepaid balance`
      : `has used ${percent} % of its budget of ${amountOf(budget)} in the period since ${formatInstant(since)}`;
  return {
    regarding,
    type: percent < 100 ? 'Normal' : 'Warning',
    reason: 'BudgetThresholdReached',
    action: 'Budget',
    note: `tenant "${tenant}" ${what}`,
  };
}

/** The notice of a reached threshold that destinations receive. */
export function thresholdNotice(reached: ReachedThreshold): BudgetNotice {
  const { id, tenant, percent, at, since, budget } = reached;
  const { counts, amount, period } = budget;
  return {
    id,
    tenant,
    percent,
    counts,
    at,
    amount: exactText(counts, amount),
    period: period.kind,
    ...(period.kind !== 'prepaid' && { periodStart: since }),
  };
}
