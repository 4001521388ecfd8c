import type { Settings } from '../../settings/settings.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Tenant } from '../../model/tenant.ts';
import { planOn, readPlanHistories } from './plan-history.ts';
import { planPrices, type PricesOf } from './plan-prices.ts';

export interface PricesInForceOptions {
  readonly ledger: Pick<Ledger, 'records'>;
  readonly settings: Pick<Settings, 'pricing' | 'billing'>;
  readonly tenants: readonly Pick<Tenant, 'id' | 'plan'>[];
  /** As {@link planPrices} calls it. */
  readonly unpriced?: (plan: string) => void;
}

/** By the plan that each tenant was on; of one that is not recorded yet, by the plan that it is on now. */
export async function pricesInForce(options: PricesInForceOptions): Promise<PricesOf> {
  const { pricing, billing } = options.settings;
  const histories = await readPlanHistories(options.ledger);
  const plans = new Map(
    options.tenants.map(({ id, plan }) => [id, plan ?? billing.defaultPlanCode]),
  );
  const planOf = (tenant: string, day: string): string | undefined => {
    const history = histories.get(tenant);
    return history === undefined ? plans.get(tenant) : planOn(history, day);
  };
  return planPrices(pricing.books, planOf, options.unpriced);
}
