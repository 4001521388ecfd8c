import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { mergeMetadata, metadataProblem } from './customers.ts';
import { type Form, items, text, texts } from './form.ts';
import { page, PAGING, unknownParameter } from './lists.ts';
import { showPrice } from './prices.ts';
import { nextId, type StripeState, type Subscription, type SubscriptionItem } from './state.ts';

const MAX_ITEMS = 20;
const MONTH_SECONDS = 30 * 86_400;

const CREATE = [
  'customer',
  'items',
  'metadata',
  'description',
  'currency',
  'collection_method',
  'days_until_due',
  'backdate_start_date',
  'billing_cycle_anchor',
  'proration_behavior',
  'payment_behavior',
  'off_session',
];
const UPDATE = [
  'items',
  'metadata',
  'description',
  'cancel_at_period_end',
  'proration_behavior',
  'payment_behavior',
];

export function createSubscription(state: StripeState, form: Form, at: number): FakeResponse {
  const now = Math.floor(at / 1000);
  const metadata = texts(form, 'metadata');
  const problem = unknownParameter(form, CREATE) ?? metadataProblem(metadata);
  if (problem !== undefined) return problem;
  const customer = text(form, 'customer') ?? '';
  if (state.customers.get(customer)?.deleted !== false) return missing('customer', customer);
  const start = Number(text(form, 'backdate_start_date') ?? now);
  if (!Number.isInteger(start) || start > now) {
    return invalid('backdate_start_date must be in the past', undefined, 'backdate_start_date');
  }
  const prices = items(form, 'items').map((item) => text(item, 'price') ?? '');
  const wrong = pricesProblem(state, prices);
  if (wrong !== undefined) return wrong;
  const id = nextId(state, 'sub');
  const subscription: Subscription = {
    id,
    created: now,
    customer,
    start,
    currency: state.prices.get(prices[0] ?? '')?.currency ?? '',
    status: 'active',
    cancelAtPeriodEnd: false,
    endedAt: undefined,
    metadata,
    items: prices.map((price) => ({ id: nextId(state, 'si'), price, from: start, to: undefined })),
    replaced: [],
  };
  state.subscriptions.set(id, subscription);
  return ok(showSubscription(state, subscription));
}

export function updateSubscription(
  state: StripeState,
  id: string,
  form: Form,
  at: number,
): FakeResponse {
  const now = Math.floor(at / 1000);
  const subscription = state.subscriptions.get(id);
  if (subscription === undefined) return missing('subscription', id);
  if (subscription.status === 'canceled') {
    return invalid(
      'A canceled subscription can only update its cancellation_details and metadata.',
    );
  }
  const metadata = texts(form, 'metadata');
  const unknown = unknownParameter(form, UPDATE) ?? metadataProblem(metadata);
  if (unknown !== undefined) return unknown;
  const changes = items(form, 'items');
  const next = liveItems(subscription).map(({ id: itemId, price }) => ({ id: itemId, price }));
  for (const change of changes) {
    const itemId = text(change, 'id');
    const price = text(change, 'price');
    const index = next.findIndex((item) => item.id === itemId);
    if (itemId !== undefined && index < 0) return missing('subscription item', itemId);
    if (text(change, 'deleted') === 'true') next.splice(index, 1);
    else if (itemId !== undefined && price !== undefined) next[index] = { id: itemId, price };
    else if (price !== undefined) next.push({ id: '', price });
  }
  const problem = pricesProblem(
    state,
    next.map(({ price }) => price),
  );
  if (problem !== undefined) return problem;
  for (const item of liveItems(subscription)) {
    const kept = next.find((one) => one.id === item.id);
    if (kept === undefined) item.to = now;
    else if (kept.price !== item.price) {
      subscription.replaced.push({ ...item, to: now });
      subscription.items = subscription.items.map((one) =>
        one === item ? { ...item, price: kept.price, from: now } : one,
      );
    }
  }
  for (const added of next.filter((one) => one.id === '')) {
    const item = { id: nextId(state, 'si'), price: added.price, from: now, to: undefined };
    subscription.items.push(item);
  }
  const cancel = text(form, 'cancel_at_period_end');
  if (cancel !== undefined) subscription.cancelAtPeriodEnd = cancel === 'true';
  subscription.metadata = mergeMetadata(subscription.metadata, metadata);
  return ok(showSubscription(state, subscription));
}

function pricesProblem(state: StripeState, prices: readonly string[]): FakeResponse | undefined {
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
  if (new Set(found.map((price) => price?.currency)).size > 1) {
    return invalid('All prices on a subscription must have the same `currency` field.');
  }
  if (new Set(found.map((price) => price?.interval)).size > 1) {
    return invalid('All prices on a subscription must have the same `recurring.interval` field.');
  }
  return undefined;
}

export function cancelSubscription(
  state: StripeState,
  id: string,
  form: Form,
  at: number,
): FakeResponse {
  const unknown = unknownParameter(form, ['invoice_now', 'prorate']);
  if (unknown !== undefined) return unknown;
  const subscription = state.subscriptions.get(id);
  if (subscription === undefined || subscription.status === 'canceled') {
    return missing('subscription', id);
  }
  end(subscription, Math.floor(at / 1000));
  return ok(showSubscription(state, subscription));
}

/** Ends a subscription, as the end of its period or the last failed payment does. */
export function end(subscription: Subscription, now: number): void {
  subscription.status = 'canceled';
  subscription.endedAt = now;
}

export function listSubscriptions(state: StripeState, query: Form): FakeResponse {
  const known = ['customer', 'status', 'price', ...PAGING];
  const unknown = unknownParameter(query, known);
  if (unknown !== undefined) return unknown;
  const customer = text(query, 'customer');
  const status = text(query, 'status');
  const found = [...state.subscriptions.values()].filter((subscription) => {
    if (customer !== undefined && subscription.customer !== customer) return false;
    if (status === undefined) return subscription.status !== 'canceled';
    return status === 'all' || subscription.status === status;
  });
  return page('/v1/subscriptions', query, found, (one) => showSubscription(state, one));
}

function liveItems({ items: all }: Subscription): SubscriptionItem[] {
  return all.filter(({ to }) => to === undefined);
}

function showSubscription(state: StripeState, subscription: Subscription): unknown {
  const { id, created, customer, start, currency, status, metadata } = subscription;
  const data = liveItems(subscription).map((item) => ({
    id: item.id,
    object: 'subscription_item',
    created,
    subscription: id,
    metadata: {},
    price: showPrice(state.prices.get(item.price) ?? unknownPrice(item.price)),
    current_period_start: start,
    current_period_end: start + MONTH_SECONDS,
  }));
  return {
    id,
    object: 'subscription',
    created,
    customer,
    start_date: start,
    currency,
    status,
    metadata,
    cancel_at_period_end: subscription.cancelAtPeriodEnd,
    ended_at: subscription.endedAt ?? null,
    canceled_at: subscription.endedAt ?? null,
    livemode: false,
    items: {
      object: 'list',
      data,
      has_more: false,
      url: `/v1/subscription_items?subscription=${id}`,
    },
  };
}

function unknownPrice(id: string): never {
  throw new RangeError(`no such price: "${id}"`);
}

/** How many prices charge an event: 1 when everything is right, 0 when it is free, more when it is charged twice. */
export function chargesOf(
  state: StripeState,
  { customer, meter, timestamp }: { customer: string; meter: string; timestamp: number },
): number {
  let charges = 0;
  for (const subscription of state.subscriptions.values()) {
    if (subscription.customer !== customer) continue;
    const until = subscription.endedAt ?? Number.POSITIVE_INFINITY;
    for (const item of [...subscription.items, ...subscription.replaced]) {
      if (state.prices.get(item.price)?.meter !== meter) continue;
      if (timestamp >= item.from && timestamp < Math.min(until, item.to ?? until)) charges += 1;
    }
  }
  return charges;
}
