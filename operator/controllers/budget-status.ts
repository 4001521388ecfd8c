import { amountTexts, type BudgetState } from '../billing/budgets/budget-state.ts';
import { unitText } from '../billing/budgets/unit.ts';
import type { TenantOverrideStatus } from '../settings/custom-resources.generated.ts';
import { formatInstant } from '../model/window.ts';

/** Most items in the status. HTTP returns all of them. */
const MOST_ITEMS = 100;
const MOST_METRICS = 20;

/** Returns `status.budgets` of a TenantOverride or MeteringPolicy; no field without budgets. */
export function budgetFields(
  statuses: readonly BudgetState[],
): Pick<TenantOverrideStatus, 'budgets'> {
  if (statuses.length === 0) return {};
  return {
    budgets: {
      total: statuses.length,
      usedUp: statuses.filter(({ used, limit }) => used >= limit).length,
      items: statuses.toSorted(byShare).slice(0, MOST_ITEMS).map(itemOf),
    },
  };
}

type Item = NonNullable<NonNullable<TenantOverrideStatus['budgets']>['items']>[number];

function itemOf(state: BudgetState): Item {
  const { tenant, budget, period, uncounted } = state;
  const usedUpAt = state.usedUpAt();
  return {
    tenant,
    ...amountTexts(state),
    unit: unitText(budget),
    ...(Number.isFinite(period.from) && { periodStart: formatInstant(period.from) }),
    ...(Number.isFinite(period.to) && { periodEnd: formatInstant(period.to) }),
    ...(usedUpAt !== undefined && { usedUpAt: formatInstant(usedUpAt) }),
    state: state.state,
    ...(uncounted.length > 0 && { uncounted: uncounted.slice(0, MOST_METRICS) }),
  };
}

/** Sorts by the used share, largest first: a/b > c/d if a·d > c·b, as no amount is negative. */
function byShare(a: BudgetState, b: BudgetState): number {
  const [left, right] = [a.used * b.limit, b.used * a.limit];
  if (left === right) return a.tenant < b.tenant ? -1 : 1;
  return left > right ? -1 : 1;
}
