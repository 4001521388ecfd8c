import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { mergeMetadata, metadataProblem } from './metadata.ts';
import { cancelNow } from './cycles.ts';
import { type Form, items, text, texts } from './form.ts';
import { changeItems, resetAnchor, type WantedItem } from './item-changes.ts';
import { page, PAGING, unknownParameter } from './lists.ts';
import { notifySubscription } from './notices.ts';
import { liveItems, type Proration, type StripeState, type Subscription } from './state.ts';
import { pricesProblem } from './subscription-problems.ts';
import { showSubscription } from './subscription-view.ts';

const UPDATE = [
  'items',
  'metadata',
  'description',
  'cancel_at_period_end',
  'proration_behavior',
  'payment_behavior',
  'billing_cycle_anchor',
  'pause_collection',
  'collection_method',
  'days_until_due',
  'automatic_tax',
  'default_payment_method',
];
const PRORATIONS: readonly string[] = ['create_prorations', 'always_invoice', 'none'];

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
  const proration = text(form, 'proration_behavior') ?? 'create_prorations';
  if (!isProration(proration)) return invalid(`Invalid proration_behavior: ${proration}`);
  const wanted = wantedItems(subscription, items(form, 'items'));
  if ('status' in wanted) return wanted;
  const problem = pricesProblem(
    state,
    wanted.map(({ price }) => price),
    subscription.currency,
  );
  if (problem !== undefined) return problem;
  if (subscription.status === 'incomplete' && form['items'] !== undefined) {
    return invalid('This subscription is incomplete: its items cannot be changed.');
  }
  if (text(form, 'billing_cycle_anchor') === 'now') {
    resetAnchor(state, subscription, now);
    changeItems(state, subscription, wanted, 'none', now);
  } else changeItems(state, subscription, wanted, proration, now);
  const cancel = text(form, 'cancel_at_period_end');
  if (cancel !== undefined) {
    subscription.cancelAtPeriodEnd = cancel === 'true';
    subscription.canceledAt = cancel === 'true' ? now : undefined;
  }
  const paused = text(form, 'pause_collection', 'behavior');
  if (paused === 'keep_as_draft' || paused === 'void' || paused === 'mark_uncollectible') {
    subscription.pauseCollection = paused;
  } else if (form['pause_collection'] === '') subscription.pauseCollection = undefined;
  subscription.collectionMethod = text(form, 'collection_method') ?? subscription.collectionMethod;
  subscription.metadata = mergeMetadata(subscription.metadata, metadata);
  notifySubscription(state, 'customer.subscription.updated', subscription, now);
  return ok(showSubscription(state, subscription));
}

function isProration(value: string): value is Proration {
  return PRORATIONS.includes(value);
}

/** Returns the items after the changes in a form. */
function wantedItems(
  subscription: Subscription,
  changes: readonly Form[],
): readonly WantedItem[] | FakeResponse {
  const wanted: WantedItem[] = liveItems(subscription).map(({ id, price }) => ({ id, price }));
  for (const change of changes) {
    const id = text(change, 'id');
    const price = text(change, 'price');
    const index = wanted.findIndex((item) => item.id === id);
    if (id !== undefined && index < 0) return missing('subscription item', id);
    if (text(change, 'deleted') === 'true') wanted.splice(index, 1);
    else if (id !== undefined && price !== undefined) wanted[index] = { id, price };
    else if (price !== undefined) wanted.push({ id: undefined, price });
  }
  return wanted;
}

export function showOneSubscription(state: StripeState, id: string): FakeResponse {
  const subscription = state.subscriptions.get(id);
  return subscription === undefined
    ? missing('subscription', id)
    : ok(showSubscription(state, subscription));
}

/** Changes the billing mode, in one direction only. */
export function migrateSubscription(state: StripeState, id: string): FakeResponse {
  const subscription = state.subscriptions.get(id);
  if (subscription === undefined) return missing('subscription', id);
  subscription.mode = 'flexible';
  return ok(showSubscription(state, subscription));
}

/**
 * Ends a subscription at once. Usage without an invoice is discarded unless `invoice_now` is set.
 */
export function cancelSubscription(
  state: StripeState,
  id: string,
  form: Form,
  at: number,
): FakeResponse {
  const now = Math.floor(at / 1000);
  const unknown = unknownParameter(form, ['invoice_now', 'prorate']);
  if (unknown !== undefined) return unknown;
  const subscription = state.subscriptions.get(id);
  if (subscription === undefined || subscription.status === 'canceled') {
    return missing('subscription', id);
  }
  const isRequested =
    text(form, 'invoice_now') === 'true' &&
    (!state.rules.cancelNeedsProrate || text(form, 'prorate') === 'true');
  cancelNow(state, subscription, isRequested, now);
  return ok(showSubscription(state, subscription));
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
