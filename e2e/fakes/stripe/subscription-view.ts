import { showPrice } from './prices.ts';
import { liveItems, type StripeState, type Subscription } from './state.ts';

/** Returns a subscription as Stripe shows it (https://docs.stripe.com/api/subscriptions/object). */
export function showSubscription(state: StripeState, subscription: Subscription) {
  const { id, created, customer, start, currency, status, metadata, pauseCollection } =
    subscription;
  const schedule = [...state.schedules.values()].find(
    (one) => one.subscription === id && one.status === 'active',
  );
  const data = liveItems(subscription).map((item) => ({
    id: item.id,
    object: 'subscription_item',
    created: item.created,
    subscription: id,
    metadata: {},
    price: showPrice(state.prices.get(item.price) ?? unknownPrice(item.price)),
    current_period_start: subscription.periodStart,
    current_period_end: subscription.periodEnd,
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
    canceled_at: subscription.canceledAt ?? subscription.endedAt ?? null,
    billing_mode: { type: subscription.mode },
    billing_cycle_anchor: subscription.anchor,
    collection_method: subscription.collectionMethod,
    days_until_due: subscription.daysUntilDue,
    automatic_tax: { enabled: subscription.automaticTax },
    default_payment_method: subscription.defaultPaymentMethod,
    pause_collection:
      pauseCollection === undefined ? null : { behavior: pauseCollection, resumes_at: null },
    schedule: schedule?.id ?? null,
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
