import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import { TENANT_KEY } from './customers.ts';
import { PLAN_KEY, readPrice, type StripePrice } from './prices.ts';
import type { PaymentTerms } from './settings.ts';

/** Metadata key of a subscription that an offboarding cancelled: only that is taken back. */
export const OFFBOARDED_KEY = 'vbilling_offboarded';

const ENDED = new Set(['canceled', 'incomplete_expired']);

/** A subscription's fields that decide how it charges meters. Times are seconds since 1970. */
export interface StripeSubscription {
  readonly id: string;
  /** The tenant it was made for; undefined when somebody else made it. */
  readonly tenant: string | undefined;
  readonly plan: string | undefined;
  readonly live: boolean;
  readonly status: string;
  /**
   * True if the removal of an item bills its usage: in the mode `flexible`, never in the mode
   * `classic` (https://docs.stripe.com/billing/subscriptions/billing-mode/compare).
   */
  readonly billsRemovals: boolean;
  /** What happens to its invoices while collection is paused; undefined while it is not. */
  readonly pausedAs: string | undefined;
  /** Upper case, as in ISO 4217. */
  readonly currency: string;
  /** Undefined while it is live. */
  readonly endedAt: number | undefined;
  /** The start of the current period, or of the last one; 0 where Stripe does not report it. */
  readonly periodStart: number;
  readonly periodEnd: number;
  readonly cancelAtPeriodEnd: boolean;
  readonly offboarded: boolean;
  /** The terms of payment, for a successor. */
  readonly payment: PaymentTerms;
  /** Items of meters; other items are only counted. */
  readonly items: readonly StripeItem[];
  readonly itemCount: number;
}

export interface StripeItem {
  readonly id: string;
  readonly price: StripePrice;
  /** When it was added. A backdated start decides whether it charges earlier usage. */
  readonly created: number;
}

export function readSubscription(object: JsonObject): StripeSubscription {
  const metadata = objectOf(object, 'metadata');
  const list = objectsOf(objectOf(object, 'items'), 'data');
  const items = list.flatMap((item): StripeItem[] => {
    const price = readPrice(objectOf(item, 'price'));
    if (price === undefined) return [];
    return [{ id: textOf(item, 'id') ?? '', price, created: Number(item['created'] ?? 0) }];
  });
  const status = textOf(object, 'status') ?? '';
  const live = !ENDED.has(status);
  const endedAt = Number(object['ended_at'] ?? 0);
  const [period = object] = list;
  return {
    id: textOf(object, 'id') ?? '',
    tenant: textOf(metadata, TENANT_KEY),
    plan: textOf(metadata, PLAN_KEY),
    live,
    status,
    billsRemovals: textOf(objectOf(object, 'billing_mode'), 'type') === 'flexible',
    pausedAs: textOf(objectOf(object, 'pause_collection'), 'behavior'),
    currency: (textOf(object, 'currency') ?? '').toUpperCase(),
    endedAt: live || endedAt === 0 ? undefined : endedAt,
    periodStart: Number(period['current_period_start'] ?? 0),
    periodEnd: Number(period['current_period_end'] ?? 0),
    cancelAtPeriodEnd: object['cancel_at_period_end'] === true,
    offboarded: textOf(metadata, OFFBOARDED_KEY) !== undefined,
    payment: readPayment(object),
    items,
    itemCount: list.length,
  };
}

function readPayment(object: JsonObject): PaymentTerms {
  const days = object['days_until_due'];
  const method = textOf(object, 'default_payment_method');
  const isSent = textOf(object, 'collection_method') === 'send_invoice';
  return {
    collectionMethod: isSent ? 'send_invoice' : 'charge_automatically',
    ...(isSent && typeof days === 'number' && { daysUntilDue: days }),
    automaticTax: objectOf(object, 'automatic_tax')['enabled'] === true,
    defaultPaymentMethod: method,
  };
}

/** Returns why a charged subscription may bring no money; undefined without a problem. */
export function collectionProblem({ status, pausedAs }: StripeSubscription): string | undefined {
  if (status === 'paused') return 'is paused: no invoice is made until it is resumed';
  if (status === 'unpaid') {
    return 'is unpaid: its invoices are made and closed at once, and nobody collects them';
  }
  if (status === 'incomplete') {
    return 'is incomplete: its first payment is open, and without it the subscription ends within a day';
  }
  if (pausedAs === undefined) return undefined;
  const fate = {
    void: 'made void',
    mark_uncollectible: 'given up',
    keep_as_draft: 'left as drafts',
  };
  const becomes = Object.entries(fate).find(([behavior]) => behavior === pausedAs)?.[1] ?? pausedAs;
  return `has its collection paused: its invoices are ${becomes}`;
}
