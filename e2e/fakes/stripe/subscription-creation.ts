import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { metadataProblem } from './metadata.ts';
import { type Form, items, text, texts } from './form.ts';
import { makeInvoice, usageLine } from './invoicing.ts';
import { unknownParameter } from './lists.ts';
import { notifySubscription } from './notices.ts';
import { nextBoundary } from '../boundaries.ts';
import { anchorOf } from './periods.ts';
import {
  type BillingMode,
  type InvoiceLine,
  nextId,
  type StripeState,
  type Subscription,
} from './state.ts';
import { currencyProblem, pricesProblem } from './subscription-problems.ts';
import { showSubscription } from './subscription-view.ts';

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
  'billing_mode',
  'billing_cycle_anchor_config',
  'automatic_tax',
  'default_payment_method',
];
/**
 * From this version on new subscriptions are flexible (https://docs.stripe.com/changelog/clover).
 */
const FLEXIBLE_SINCE = '2025-09-30';

export function createSubscription(
  state: StripeState,
  form: Form,
  at: number,
  apiVersion?: string,
): FakeResponse {
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
  const first = state.prices.get(prices[0] ?? '');
  const requested = text(form, 'currency');
  const currency = requested ?? first?.currency ?? '';
  const wrong =
    pricesProblem(state, prices, requested) ?? currencyProblem(state, customer, currency);
  if (wrong !== undefined) return wrong;
  const mode = modeOf(state, form, apiVersion);
  const anchor = anchorIn(form, mode === 'classic' ? now : start, now);
  if (anchor === undefined) {
    return invalid('Invalid billing_cycle_anchor', undefined, 'billing_cycle_anchor');
  }
  const days = text(form, 'days_until_due');
  if ((text(form, 'collection_method') === 'send_invoice') !== (days !== undefined)) {
    return invalid(
      'days_until_due goes with collection_method=send_invoice',
      undefined,
      'days_until_due',
    );
  }
  const id = nextId(state, 'sub');
  const interval = first?.interval ?? 'month';
  const subscription: Subscription = {
    id,
    created: now,
    customer,
    start,
    currency,
    interval,
    mode,
    anchor,
    periodStart: start,
    periodEnd: nextBoundary(anchor, interval, mode === 'classic' ? now : start),
    status: 'active',
    cancelAtPeriodEnd: false,
    pauseCollection: undefined,
    collectionMethod: text(form, 'collection_method') ?? 'charge_automatically',
    daysUntilDue: days === undefined ? null : Number(days),
    automaticTax: text(form, 'automatic_tax', 'enabled') === 'true',
    defaultPaymentMethod: text(form, 'default_payment_method') ?? null,
    canceledAt: undefined,
    endedAt: undefined,
    metadata,
    items: prices.map((price) => ({
      id: nextId(state, 'si'),
      created: now,
      price,
      from: start,
      to: undefined,
      isSwapped: false,
    })),
    replaced: [],
  };
  state.subscriptions.set(id, subscription);
  invoiceStart(state, subscription, now);
  notifySubscription(state, 'customer.subscription.created', subscription, now);
  return ok(showSubscription(state, subscription));
}

function modeOf(state: StripeState, form: Form, apiVersion: string | undefined): BillingMode {
  const requested = text(form, 'billing_mode', 'type');
  if (requested === 'classic' || requested === 'flexible') return requested;
  if (state.rules.mode !== undefined) return state.rules.mode;
  return (apiVersion ?? FLEXIBLE_SINCE).slice(0, FLEXIBLE_SINCE.length) < FLEXIBLE_SINCE
    ? 'classic'
    : 'flexible';
}

/** Undefined where it is not one. */
function anchorIn(form: Form, byDefault: number, now: number): number | undefined {
  const config = texts(form, 'billing_cycle_anchor_config');
  if (config['day_of_month'] !== undefined) {
    const of = (name: string): number => Number(config[name] ?? 0);
    const [day, hour] = [of('day_of_month'), of('hour')];
    return anchorOf({ day, hour, minute: of('minute'), second: of('second') }, now);
  }
  const given = text(form, 'billing_cycle_anchor');
  if (given === undefined) return byDefault;
  const anchor = Number(given);
  return Number.isInteger(anchor) && anchor > now ? anchor : undefined;
}

/**
 * Makes the first invoice, which is final inside the call. In flexible mode it has the full periods
 * since a backdated start, and there is none without such usage; in classic mode it is empty
 * (https://docs.stripe.com/billing/subscriptions/billing-mode/compare).
 */
function invoiceStart(state: StripeState, subscription: Subscription, now: number): void {
  const lines: InvoiceLine[] = [];
  const read = (until: number): void => {
    for (const item of subscription.items) {
      lines.push(usageLine(state, subscription, item, until, true));
    }
  };
  while (subscription.mode === 'flexible' && subscription.periodEnd <= now) {
    read(subscription.periodEnd);
    subscription.periodStart = subscription.periodEnd;
    subscription.periodEnd = nextBoundary(
      subscription.anchor,
      subscription.interval,
      subscription.periodStart,
    );
  }
  if (state.rules.backdatedUsage === 'first-invoice' && subscription.start < now) {
    read(now);
    subscription.items = subscription.items.map((item) => ({ ...item, from: now }));
  }
  const used = lines.filter(({ events }) => events.length > 0);
  if (used.length === 0 && subscription.mode === 'flexible') return;
  const { customer, currency, start } = subscription;
  makeInvoice(state, {
    customer,
    currency,
    subscription,
    reason: 'subscription_create',
    lines: used,
    periodStart: start,
    at: now,
    finalizesAt: undefined,
  });
}
