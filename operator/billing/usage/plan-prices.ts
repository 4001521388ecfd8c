import type { PriceBook } from '../../model/price-book.ts';
import { PriceFinder } from '../../model/pricing/find-price.ts';
import { currencyDigits } from '../../model/pricing/money.ts';

/** What the usage of a plan costs. */
export interface PlanPrices {
  readonly plan: string;
  readonly currency: string;
  /** Fraction digits of the currency. */
  readonly digits: number;
  readonly finder: PriceFinder;
}

/** What the usage of a tenant on a UTC day, `2026-11-21`, is priced by; undefined where nothing prices it. */
export type PricesOf = (tenant: string, day: string) => PlanPrices | undefined;

/**
 * Prices by the plan that a tenant is on; `planOf` knows none of a tenant that nobody knows. Calls `unpriced` with each plan
 * that was asked for and has no book.
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
  // A currency without digits is refused before it comes here.
  const digits = currencyDigits(currency) ?? 2;
  return { plan, currency, digits, finder: new PriceFinder(book) };
}
