import type { Settings } from '../../settings/settings.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Tenant } from '../../model/tenant.ts';
import { planOn, readPlanHistories } from './plan-history.ts';
import { planPrices, type PricesOf } from './plan-prices.ts';

/**
 * Prices by the recorded plan of each tenant. A tenant without a record has the prices of its
 * current plan.
 */
export async function pricesInForce(
  ledger: Pick<Ledger, 'records'>,
  settings: Pick<Settings, 'pricing' | 'billing'>,
  tenants: readonly Pick<Tenant, 'id' | 'plan'>[],
  /** Passed to {@link planPrices}. */
  unpriced?: (plan: string) => void,
): Promise<PricesOf> {
  const { pricing, billing } = settings;
  const histories = await readPlanHistories(ledger);
  const plans = new Map(tenants.map(({ id, plan }) => [id, plan ?? billing.defaultPlanCode]));
  const planOf = (tenant: string, day: string): string | undefined => {
    const history = histories.get(tenant);
    return history === undefined ? plans.get(tenant) : planOn(history, day);
  };
  return planPrices(pricing.books, planOf, unpriced);
}
