import type { PriceBook } from '../../model/price-book.ts';
import { PriceFinder } from '../../model/pricing/find-price.ts';
import { currencyDigits } from '../../model/pricing/money.ts';

/** The prices of a plan. */
export interface PlanPrices {
  readonly plan: string;
  readonly currency: string;
  /** Fraction digits of the currency. */
  readonly digits: number;
  readonly finder: PriceFinder;
}

/** Returns the prices of a tenant's usage on a UTC day, `2026-11-21`; undefined without prices. */
export type PricesOf = (tenant: string, day: string) => PlanPrices | undefined;

/**
 * Prices by the plan of the tenant. `planOf` returns undefined for an unknown tenant. Calls
 * `unpriced` with each requested plan that has no price book.
 */
export function planPrices(
  books: readonly PriceBook[],
  planOf: (tenant: string, day: string) => string | undefined,
  unpriced: (plan: string) => void = () => undefined,
): PricesOf {
  const byPlan = new Map(books.map((book) => [book.name, pricesOf(book)]));
  return (tenant, day) => {
    const plan = planOf(tenant, day);
    if (plan === undefined) return undefined;
    const prices = byPlan.get(plan);
    if (prices === undefined) unpriced(plan);
    return prices;
  };
}

function pricesOf(book: PriceBook): PlanPrices {
  const { name: plan, currency } = book;
  // Price books with a currency without digits are refused earlier.
  const digits = currencyDigits(currency) ?? 2;
  return { plan, currency, digits, finder: new PriceFinder(book) };
}
