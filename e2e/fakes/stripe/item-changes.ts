import { addInvoiceItem, makeInvoice, usageLine } from './invoicing.ts';
import { nextBoundary } from '../boundaries.ts';
import {
  liveItems,
  type InvoiceLine,
  nextId,
  type Proration,
  type StripeState,
  type Subscription,
} from './state.ts';

/** A wanted item; one without an id is new. */
export interface WantedItem {
  readonly id: string | undefined;
  readonly price: string;
}

/**
 * Changes the charges of a subscription from a moment on. The earlier usage of a removed or swapped
 * item in the period goes:
 * - in flexible mode to a waiting invoice item (`create_prorations`), an invoice
 *   (`always_invoice`), or nowhere (`none`);
 * - in classic mode nowhere, whatever is requested
 *   (https://docs.stripe.com/billing/subscriptions/billing-mode/compare).
 */
export function changeItems(
  state: StripeState,
  subscription: Subscription,
  wanted: readonly WantedItem[],
  proration: Proration,
  at: number,
): void {
  const lines: InvoiceLine[] = [];
  for (const item of liveItems(subscription)) {
    const stored = wanted.find(({ id }) => id === item.id);
    if (stored?.price === item.price) continue;
    const isBilled = subscription.mode === 'flexible' && proration !== 'none';
    if (isBilled && at > Math.max(item.from, subscription.periodStart)) {
      lines.push(usageLine(state, subscription, item, at, true));
    }
    if (stored === undefined) {
      item.to = at;
      continue;
    }
    subscription.replaced.push({ ...item, to: at });
    subscription.items = subscription.items.map((one) =>
      one === item ? { ...item, price: stored.price, from: at, isSwapped: true } : one,
    );
  }
  for (const { id, price } of wanted) {
    if (id !== undefined) continue;
    const added = { id: nextId(state, 'si'), created: at, price, from: at };
    subscription.items.push({ ...added, to: undefined, isSwapped: false });
  }
  bill(state, subscription, lines, proration, at);
}

function bill(
  state: StripeState,
  subscription: Subscription,
  lines: readonly InvoiceLine[],
  proration: Proration,
  at: number,
): void {
  const used = lines.filter(({ events }) => events.length > 0);
  if (used.length === 0) return;
  const { customer, currency } = subscription;
  for (const line of used) addInvoiceItem(state, customer, currency, line);
  if (proration !== 'always_invoice') return;
  invoiceNow(state, subscription, [], at);
}

/**
 * Sets the prices of a complete phase. An item that continues under another price of its meter is
 * swapped.
 */
export function setPrices(
  state: StripeState,
  subscription: Subscription,
  prices: readonly string[],
  proration: Proration,
  at: number,
): void {
  const free = new Set(liveItems(subscription));
  const meterOf = (price: string) => state.prices.get(price)?.meter;
  const take = (fits: (price: string) => boolean): string | undefined => {
    const found = [...free].find((item) => fits(item.price));
    if (found !== undefined) free.delete(found);
    return found?.id;
  };
  const stored = new Map(prices.map((price) => [price, take((own) => own === price)]));
  const wanted = prices.map((price) => ({
    id: stored.get(price) ?? take((own) => meterOf(own) === meterOf(price)),
    price,
  }));
  changeItems(state, subscription, wanted, proration, at);
}

/**
 * Handles `billing_cycle_anchor=now`: it invoices all usage so far at the earlier prices, and
 * begins a period.
 */
export function resetAnchor(state: StripeState, subscription: Subscription, at: number): void {
  const lines = liveItems(subscription).map((item) =>
    usageLine(state, subscription, item, at, true),
  );
  invoiceNow(state, subscription, lines, at);
  subscription.anchor = at;
  subscription.periodStart = at;
  subscription.periodEnd = nextBoundary(at, subscription.interval, at);
}

/** Makes an invoice that is final at once. */
export function invoiceNow(
  state: StripeState,
  subscription: Subscription,
  lines: readonly InvoiceLine[],
  at: number,
): void {
  const { customer, currency, periodStart } = subscription;
  makeInvoice(state, {
    customer,
    currency,
    subscription,
    reason: 'subscription_update',
    lines,
    periodStart,
    at,
    finalizesAt: undefined,
  });
}
