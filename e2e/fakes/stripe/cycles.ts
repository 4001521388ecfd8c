import { invoiceNow, setPrices } from './item-changes.ts';
import { finalize, makeInvoice, usageLine } from './invoicing.ts';
import { notify, notifySubscription } from './notices.ts';
import { nextBoundary } from '../boundaries.ts';
import {
  liveItems,
  type Invoice,
  type Schedule,
  type StripeState,
  type Subscription,
} from './state.ts';

const HOUR_SECONDS = 3_600;
const LONGEST_DELAY_SECONDS = 72 * HOUR_SECONDS;
const ENDED = new Set(['canceled', 'incomplete', 'incomplete_expired']);

/** Does Stripe's own work until a moment, seconds since the epoch, each step at its own time. */
export function runUntil(state: StripeState, until: number): void {
  for (let at = nextTime(state); at <= until; at = nextTime(state)) {
    for (const invoice of state.invoices) {
      if (invoice.status === 'draft' && advancesAt(invoice) <= at) {
        settle(state, invoice, at);
      }
    }
    for (const schedule of state.schedules.values()) runSchedule(state, schedule, at);
    for (const subscription of state.subscriptions.values()) {
      if (runs(subscription) && subscription.periodEnd <= at) cycle(state, subscription);
    }
  }
}

function runs({ status }: Subscription): boolean {
  return !ENDED.has(status);
}

function advancesAt({ collects, finalizesAt = Infinity }: Invoice): number {
  return collects ? finalizesAt : Infinity;
}

function nextTime(state: StripeState): number {
  let next = Infinity;
  for (const invoice of state.invoices) {
    if (invoice.status === 'draft') next = Math.min(next, advancesAt(invoice));
  }
  for (const subscription of state.subscriptions.values()) {
    if (runs(subscription)) next = Math.min(next, subscription.periodEnd);
  }
  for (const schedule of state.schedules.values()) {
    const [current] = schedule.phases;
    if (schedule.status === 'active') next = Math.min(next, current?.end ?? Infinity);
  }
  return next;
}

/**
 * Ends a period with a draft of its usage. The usage is read again when the draft becomes final. An
 * exception is an item whose price changed in the period in flexible mode: it is read only now
 * (https://docs.stripe.com/billing/subscriptions/usage-based/configure-grace-period).
 */
function cycle(state: StripeState, subscription: Subscription): void {
  const { mode, customer, currency, periodStart, periodEnd: at } = subscription;
  const ends = subscription.cancelAtPeriodEnd;
  if (subscription.status !== 'paused') {
    const lines = liveItems(subscription).map((item) => {
      const isFixed = mode === 'flexible' && item.isSwapped && item.from > periodStart;
      return usageLine(state, subscription, item, at, isFixed);
    });
    const hasGrace =
      subscription.status !== 'unpaid' && (!ends || state.rules.finalInvoiceHasGrace);
    makeInvoice(state, {
      customer,
      currency,
      subscription,
      reason: 'subscription_cycle',
      lines,
      periodStart,
      at,
      finalizesAt: hasGrace ? at + state.rules.graceSeconds : undefined,
    });
  }
  if (ends) {
    end(state, subscription, at);
    return;
  }
  subscription.periodStart = at;
  subscription.periodEnd = nextBoundary(subscription.anchor, subscription.interval, at);
}

/**
 * Finalizes a draft, unless collection is paused. While its webhook is unacknowledged this waits an
 * hour at a time, three days at most
 * (https://docs.stripe.com/billing/subscriptions/webhooks#understand).
 */
function settle(state: StripeState, invoice: Invoice, at: number): void {
  const latest = invoice.created + LONGEST_DELAY_SECONDS;
  if (state.unacknowledged.has(invoice.id) && at < latest) {
    invoice.finalizesAt = Math.min(at + HOUR_SECONDS, latest);
    return;
  }
  const paused = state.subscriptions.get(invoice.subscription ?? '')?.pauseCollection;
  if (paused === 'keep_as_draft') {
    invoice.finalizesAt = undefined;
    return;
  }
  finalize(state, invoice, at);
  if (paused === 'void') invoice.status = 'void';
  if (paused === 'mark_uncollectible') invoice.status = 'uncollectible';
  if (paused !== undefined) {
    notify(
      state,
      paused === 'void' ? 'invoice.voided' : 'invoice.marked_uncollectible',
      invoice,
      at,
    );
  }
}

/** Ends a subscription now, with an invoice that is final at once, or without one. */
export function cancelNow(
  state: StripeState,
  subscription: Subscription,
  isInvoiced: boolean,
  at: number,
): void {
  if (isInvoiced) {
    const lines = liveItems(subscription).map((item) =>
      usageLine(state, subscription, item, at, true),
    );
    invoiceNow(state, subscription, lines, at);
  }
  // This stops the collection of all invoices of the customer, as the text states
  // (https://docs.stripe.com/api/subscriptions/cancel); drafts then stay drafts.
  for (const invoice of state.invoices) {
    const goesOn = invoice.status === 'open' || invoice.status === 'draft';
    if (invoice.customer === subscription.customer && goesOn) invoice.collects = false;
  }
  end(state, subscription, at);
}

function end(state: StripeState, subscription: Subscription, at: number): void {
  subscription.status = 'canceled';
  subscription.canceledAt ??= at;
  subscription.endedAt = at;
  for (const schedule of state.schedules.values()) {
    if (schedule.subscription === subscription.id && schedule.status === 'active') {
      schedule.status = 'canceled';
    }
  }
  notifySubscription(state, 'customer.subscription.deleted', subscription, at);
}

/**
 * Ends a phase: first the cycle that ends with it, with the old items; then come the items of the
 * next one.
 */
function runSchedule(state: StripeState, schedule: Schedule, at: number): void {
  const subscription = state.subscriptions.get(schedule.subscription);
  const [current, next] = schedule.phases;
  if (schedule.status !== 'active' || subscription === undefined) return;
  if (current?.end === undefined || current.end > at) return;
  if (runs(subscription) && subscription.periodEnd <= at) cycle(state, subscription);
  schedule.phases = schedule.phases.slice(1);
  if (next !== undefined) {
    setPrices(state, subscription, next.prices, next.proration, at);
    return;
  }
  schedule.status = schedule.endBehavior === 'release' ? 'released' : 'completed';
  if (schedule.endBehavior === 'cancel') end(state, subscription, at);
}
