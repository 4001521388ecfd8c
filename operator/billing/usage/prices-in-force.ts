import type { Settings } from '../../settings/settings.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Tenant } from '../../model/tenant.ts';
import { planOn, readPlanHistories } from './plan-history.ts';
import { planPrices, type PricesOf } from './plan-prices.ts';

/** By the plan that each tenant was on; of one that is not recorded yet, by the plan that it is on now. */
export async function pricesInForce(
  ledger: Pick<Ledger, 'records'>,
  settings: Pick<Settings, 'pricing' | 'billing'>,
  tenants: readonly Pick<Tenant, 'id' | 'plan'>[],
  /** As {@link planPrices} calls it. */
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
