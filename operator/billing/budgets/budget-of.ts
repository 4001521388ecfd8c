import type { PricingSettings, TenantOverrideSettings } from '../../settings/settings.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Budget } from '../../model/budget.ts';

/** A tenant's budget and the TenantOverride with it; without `override`, the MeteringPolicy's. */
export interface GivenBudget {
  readonly budget: Budget;
  readonly override?: string;
}

/**
 * The budgets of all tenants that have one. The first of these wins:
 * 1. The most specific TenantOverride with a budget, of the tenant's first tenant cluster that has
 *    such an override.
 * 2. The default budget of the MeteringPolicy.
 */
export function budgetsOf(
  clusters: readonly Pick<TenantCluster, 'tenant' | 'overrides' | 'excluded'>[],
  overrides: readonly TenantOverrideSettings[],
  { defaultBudget }: Pick<PricingSettings, 'defaultBudget'>,
): ReadonlyMap<string, GivenBudget> {
  const byName = new Map(overrides.map((override) => [override.name, override]));
  const budgets = new Map<string, GivenBudget>();
  for (const { tenant, overrides: names, excluded } of clusters) {
    if (excluded || budgets.get(tenant)?.override !== undefined) continue;
    const override = names.find((name) => byName.get(name)?.budget !== undefined);
    const budget = override === undefined ? defaultBudget : byName.get(override)?.budget;
    if (budget === undefined) continue;
    budgets.set(tenant, { budget, override });
  }
  return budgets;
}
