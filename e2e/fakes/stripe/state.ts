import type { Exact } from '../exact.ts';
import type { StoredResult } from '../idempotency.ts';

export interface Meter {
  readonly id: string;
  readonly created: number;
  readonly event_name: string;
  readonly formula: string;
  readonly customerKey: string;
  readonly valueKey: string;
  readonly eventTimeWindow: string | null;
  display_name: string;
  status: 'active' | 'inactive';
}

export interface Customer {
  readonly id: string;
  readonly created: number;
  name: string | null;
  email: string | null;
  description: string | null;
  metadata: Record<string, string>;
  address: Readonly<Record<string, string | null>> | null;
  readonly taxIds: TaxId[];
  deleted: boolean;
}

export interface TaxId {
  readonly id: string;
  readonly created: number;
  readonly type: string;
  readonly value: string;
}

export interface Price {
  readonly id: string;
  readonly created: number;
  readonly currency: string;
  /** Other currencies that it can be charged in. */
  readonly currencyOptions: readonly string[];
  readonly product: string;
  readonly unit_amount_decimal: string | null;
  readonly tiers_mode: 'graduated' | 'volume' | null;
  /** Undefined of a price per unit. */
  readonly tiers:
    | readonly { readonly up_to: number | null; readonly unit_amount_decimal: string }[]
    | undefined;
  readonly lookup_key: string | null;
  /** Undefined of a price that was made for one invoice item. */
  readonly interval: string | undefined;
  readonly meter: string | null;
  readonly tax_behavior: string;
  active: boolean;
  nickname: string | null;
  metadata: Record<string, string>;
}

/** From when to when usage is charged by it, seconds since the epoch. */
export interface SubscriptionItem {
  readonly id: string;
  readonly created: number;
  price: string;
  readonly from: number;
  to: number | undefined;
  /** It took the place of another price: in flexible mode such an item has no grace at its first period's end. */
  readonly isSwapped: boolean;
}

export type BillingMode = 'classic' | 'flexible';

export interface Subscription {
  readonly id: string;
  readonly created: number;
  readonly customer: string;
  readonly start: number;
  readonly currency: string;
  readonly interval: string;
  mode: BillingMode;
  /** Periods begin whole intervals after it. */
  anchor: number;
  /** The running period. */
  periodStart: number;
  periodEnd: number;
  status:
    | 'active'
    | 'trialing'
    | 'past_due'
    | 'unpaid'
    | 'paused'
    | 'incomplete'
    | 'incomplete_expired'
    | 'canceled';
  cancelAtPeriodEnd: boolean;
  pauseCollection: 'keep_as_draft' | 'void' | 'mark_uncollectible' | undefined;
  collectionMethod: string;
  /** With `send_invoice`. */
  daysUntilDue: number | null;
  automaticTax: boolean;
  defaultPaymentMethod: string | null;
  /** When its end was asked for. */
  canceledAt: number | undefined;
  endedAt: number | undefined;
  metadata: Record<string, string>;
  /** Removed ones too. */
  items: SubscriptionItem[];
  /** Prices that were charged once and are no more: an item whose price was replaced. */
  replaced: SubscriptionItem[];
}

export interface Phase {
  readonly start: number;
  readonly end: number | undefined;
  readonly prices: readonly string[];
  readonly proration: Proration;
}

export type Proration = 'create_prorations' | 'always_invoice' | 'none';

export interface Schedule {
  readonly id: string;
  readonly subscription: string;
  status: 'active' | 'released' | 'canceled' | 'completed';
  endBehavior: 'release' | 'cancel';
  phases: readonly Phase[];
}

/** The usage that a line counts: of one price of a subscription, from one second until before another. */
export interface Reading {
  readonly subscription: string;
  readonly price: string;
  readonly from: number;
  readonly to: number;
}

export interface InvoiceLine {
  readonly id: string;
  readonly description: string;
  readonly price: string | null;
  readonly subscription: string | null;
  readonly from: number;
  readonly to: number;
  /** What it reads again when the invoice becomes final; undefined where its quantity is fixed. */
  readonly reading: Reading | undefined;
  readonly quantity: Exact;
  /** In the currency's smallest unit, not rounded. */
  readonly cents: Exact;
  readonly events: readonly MeterEvent[];
  readonly taxBehavior: string;
  readonly isTaxed: boolean;
  readonly isDiscountable: boolean;
}

/** A line that waits for an invoice. */
export interface InvoiceItem {
  readonly id: string;
  readonly customer: string;
  readonly currency: string;
  readonly line: InvoiceLine;
  readonly created: number;
  readonly metadata: Readonly<Record<string, string>>;
  invoice: string | undefined;
}

export interface Invoice {
  readonly id: string;
  readonly customer: string;
  readonly subscription: string | null;
  readonly currency: string;
  readonly reason: 'subscription_create' | 'subscription_cycle' | 'subscription_update' | 'manual';
  readonly created: number;
  readonly periodStart: number;
  readonly periodEnd: number;
  status: 'draft' | 'open' | 'paid' | 'void' | 'uncollectible';
  /** When it becomes final by itself; undefined where nothing does that. */
  finalizesAt: number | undefined;
  finalizedAt: number | undefined;
  /** Whether it goes on by itself, as a draft and when it is open: what the end of a subscription takes from all of the customer's. */
  collects: boolean;
  /** By line, what the customer had prepaid. */
  readonly granted: Map<string, number>;
  /** Taken off what is due, or put on it, from the customer's balance. */
  balance: number;
  /** How often a payment was tried. */
  attempts: number;
  /** Of one that is sent; set when it becomes final. */
  dueAt: number | undefined;
  lines: readonly InvoiceLine[];
}

/** What a line comes to, in the currency's smallest unit. */
export interface LineAmounts {
  /** Before discounts and exclusive taxes. */
  readonly gross: number;
  readonly discount: number;
  /** Paid by what the customer had prepaid (https://docs.stripe.com/billing/subscriptions/usage-based/billing-credits). */
  readonly granted: number;
  readonly tax: number;
  readonly isInclusive: boolean;
  readonly total: number;
}

export interface CreditNote {
  readonly id: string;
  readonly invoice: string;
  readonly amount: number;
  readonly subtotal: number;
  readonly discount: number;
  readonly lines: readonly (LineAmounts & { readonly line: string })[];
  readonly created: number;
  readonly reason: string | null;
  readonly memo: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  /** Of it, what had been paid and went to the customer's balance. */
  readonly toBalance: number;
}

/** A snapshot event, as webhooks carry it. */
export interface Notice {
  readonly id: string;
  readonly type: string;
  readonly created: number;
  readonly object: unknown;
}

/** How an account is set up, and how what its documentation leaves open is settled. */
export interface StripeRules {
  /** From the end of a period until its invoice is final: an hour, by rule up to 72. */
  readonly graceSeconds: number;
  /** The mode of new subscriptions; by default that of the request's API version. */
  readonly mode?: BillingMode;
  /**
   * Whether the last invoice of `cancel_at_period_end` is a draft for as long as any other
   * (https://docs.stripe.com/billing/subscriptions/usage-based/manage-billing-setup does not say).
   */
  readonly finalInvoiceHasGrace: boolean;
  /**
   * Where usage since `backdate_start_date` in the running period goes: with that period, or onto the
   * first invoice, which is final before any usage can follow; the two pages on it can be read either way.
   */
  readonly backdatedUsage: 'with-its-period' | 'first-invoice';
  /**
   * What is put on every line, in per cent: by Stripe Tax, or by tax rates that are set by hand on the subscription's items.
   * Accounts with Stripe Tax have no default for whether prices include it.
   */
  readonly tax?: {
    readonly percent: number;
    readonly behavior: 'exclusive' | 'inclusive';
    readonly isAutomatic: boolean;
  };
  /** Of a coupon that every customer has, in per cent. */
  readonly discountPercent: number;
  /** What every customer has prepaid at first, for usage (billing credits). */
  readonly grantedCents: number;
  /** What is less is not collected: it goes onto the next invoice (https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts). */
  readonly minimumCents: number;
  /** Whether somebody's automation takes `auto_advance` from every draft, to look at it first. */
  readonly stopsDrafts: boolean;
  /** How long sums of meters lag behind. */
  readonly sumsLagSeconds: number;
  /** Whether `invoice_now` alone leaves metered usage out, as the guide on cancelling can be read. */
  readonly cancelNeedsProrate: boolean;
}

export interface MeterEvent {
  readonly identifier: string;
  readonly event_name: string;
  readonly meter: string;
  readonly customer: string;
  readonly value: string;
  /** Seconds since the epoch. */
  readonly timestamp: number;
  /** Milliseconds since the epoch at which it was taken. */
  readonly receivedAt: number;
  /** Taken back by an adjustment. */
  isCanceled: boolean;
}

export interface CoreEvent {
  readonly id: string;
  readonly type: string;
  readonly created: string;
  readonly related_object: { readonly id: string; readonly type: string } | null;
  readonly data: unknown;
}

export interface StripeState {
  readonly rules: StripeRules;
  readonly schedules: Map<string, Schedule>;
  /** In the order in which they were made. */
  readonly invoices: Invoice[];
  readonly invoiceItems: InvoiceItem[];
  readonly creditNotes: CreditNote[];
  /** What is left of what customers have prepaid, and their balances: below zero for what they are owed. */
  readonly grants: Map<string, number>;
  readonly balances: Map<string, number>;
  /** Drafts whose `invoice.created` an endpoint has yet to take. */
  readonly unheard: Set<string>;
  /** What Stripe tells by webhook, oldest first. */
  readonly notices: Notice[];
  readonly meters: Map<string, Meter>;
  readonly customers: Map<string, Customer>;
  readonly prices: Map<string, Price>;
  readonly subscriptions: Map<string, Subscription>;
  /** What Stripe counts, repeats of forgotten identifiers included. */
  readonly events: MeterEvent[];
  /** When an identifier was taken, milliseconds since the epoch. */
  readonly identifiers: Map<string, number>;
  readonly coreEvents: CoreEvent[];
  /** Until when a token of the event stream is good, milliseconds since the epoch. */
  readonly sessions: Map<string, number>;
  /** By idempotency key. */
  readonly results: Map<string, StoredResult>;
  /** Repeats that were recognised. */
  repeats: number;
  /** Objects made so far. */
  count: number;
}

const HOUR_SECONDS = 3_600;

export function createStripeState(rules: Partial<StripeRules> = {}): StripeState {
  return {
    rules: {
      graceSeconds: HOUR_SECONDS,
      finalInvoiceHasGrace: true,
      backdatedUsage: 'with-its-period',
      cancelNeedsProrate: false,
      discountPercent: 0,
      grantedCents: 0,
      minimumCents: 50,
      stopsDrafts: false,
      sumsLagSeconds: 0,
      ...rules,
    },
    schedules: new Map(),
    invoices: [],
    invoiceItems: [],
    creditNotes: [],
    grants: new Map(),
    balances: new Map(),
    unheard: new Set(),
    notices: [],
    meters: new Map(),
    customers: new Map(),
    prices: new Map(),
    subscriptions: new Map(),
    events: [],
    identifiers: new Map(),
    coreEvents: [],
    sessions: new Map(),
    results: new Map(),
    repeats: 0,
    count: 0,
  };
}

export function nextId(state: StripeState, prefix: string): string {
  state.count += 1;
  return `${prefix}_${String(state.count).padStart(6, '0')}`;
}

/** The items that charge usage now. */
export function liveItems({ items }: Subscription): readonly SubscriptionItem[] {
  return items.filter(({ to }) => to === undefined);
}
