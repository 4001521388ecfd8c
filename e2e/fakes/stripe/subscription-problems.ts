import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing } from './answers.ts';
import type { Price, StripeState } from './state.ts';

const MAX_ITEMS = 20;

/** Returns an error unless all running subscriptions of a customer have one currency. */
export function currencyProblem(
  state: StripeState,
  customer: string,
  currency: string,
): FakeResponse | undefined {
  const other = [...state.subscriptions.values()].find(
    (one) => one.customer === customer && one.status !== 'canceled' && one.currency !== currency,
  );
  if (other === undefined) return undefined;
  return invalid(
    `You cannot combine currencies on a single customer. This customer has an active subscription with currency ${other.currency}.`,
  );
}

/** Returns the refusal of items that a subscription cannot have together. */
export function pricesProblem(
  state: StripeState,
  prices: readonly string[],
  currency: string | undefined,
): FakeResponse | undefined {
  if (prices.length === 0) return invalid('A subscription must have at least one item.');
  if (prices.length > MAX_ITEMS) {
    return invalid('Subscriptions only support up to 20 items.', undefined, 'items');
  }
  if (new Set(prices).size < prices.length) {
    return invalid('Subscription Item for the price already exists.');
  }
  const found = prices.map((id) => state.prices.get(id));
  for (const [index, price] of found.entries()) {
    if (price === undefined) return missing('price', prices[index] ?? '');
  }
  const has = (price: Price | undefined): boolean =>
    price?.currency === (currency ?? found[0]?.currency) ||
    price?.currencyOptions.includes(currency ?? '') === true;
  if (!found.every(has)) {
    return invalid('All prices on a subscription must have the same `currency` field.');
  }
  if (new Set(found.map((price) => price?.interval)).size > 1) {
    return invalid('All prices on a subscription must have the same `recurring.interval` field.');
  }
  return undefined;
}
