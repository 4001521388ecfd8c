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
  /** Undefined for a price per unit. */
  readonly tiers:
    | readonly { readonly up_to: number | null; readonly unit_amount_decimal: string }[]
    | undefined;
  readonly lookup_key: string | null;
  /** Undefined for a price of one invoice item. */
  readonly interval: string | undefined;
  readonly meter: string | null;
  readonly tax_behavior: string;
  active: boolean;
  nickname: string | null;
  metadata: Record<string, string>;
}

/** A price that charges usage in a time range, seconds since the epoch. */
export interface SubscriptionItem {
  readonly id: string;
  readonly created: number;
  price: string;
  readonly from: number;
  to: number | undefined;
  /**
   * True if it replaced another price: in flexible mode such an item has no grace at its first
   * period's end.
   */
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
  /** Periods begin full intervals after it. */
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
  /** When its end was requested. */
  canceledAt: number | undefined;
  endedAt: number | undefined;
  metadata: Record<string, string>;
  /** Removed ones too. */
  items: SubscriptionItem[];
  /** Former prices of items whose price was replaced. */
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

/** The usage of a line: of one price of a subscription in `[from, to)`. */
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
  /**
   * The usage that is read again when the invoice becomes final; undefined where its quantity is
   * fixed.
   */
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
  /** When it becomes final by itself; undefined where it does not. */
  finalizesAt: number | undefined;
  finalizedAt: number | undefined;
  /**
   * True if it advances by itself, as a draft and when it is open. The end of a subscription sets
   * this to false on all of the customer's invoices.
   */
  collects: boolean;
  /** The prepaid amount by line. */
  readonly granted: Map<string, number>;
  /** Subtracted from or added to the amount due, from the customer's balance. */
  balance: number;
  /** How often a payment was tried. */
  attempts: number;
  /** Set when a sent invoice becomes final. */
  dueAt: number | undefined;
  lines: readonly InvoiceLine[];
}

/** The amounts of a line, in the currency's smallest unit. */
export interface LineAmounts {
  /** Before discounts and exclusive taxes. */
  readonly gross: number;
  readonly discount: number;
  /**
   * Paid from prepaid amounts
   * (https://docs.stripe.com/billing/subscriptions/usage-based/billing-credits).
   */
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
  /** The paid part, which went to the customer's balance. */
  readonly toBalance: number;
}

/** A snapshot event, as webhooks carry it. */
export interface Notice {
  readonly id: string;
  readonly type: string;
  readonly created: number;
  readonly object: unknown;
}

/** The settings of an account, and choices where its documentation is silent. */
export interface StripeRules {
  /** From the end of a period until its invoice is final: an hour, by rule up to 72. */
  readonly graceSeconds: number;
  /** The mode of new subscriptions; by default that of the request's API version. */
  readonly mode?: BillingMode;
  /**
   * True if the last invoice of `cancel_at_period_end` is a draft as long as any other
   * (https://docs.stripe.com/billing/subscriptions/usage-based/manage-billing-setup does not say).
   */
  readonly finalInvoiceHasGrace: boolean;
  /**
   * The invoice of usage since `backdate_start_date` in the running period. It is that of the
   * period, or the first invoice, which is final before any further usage; the two pages on it
   * allow both readings.
   */
  readonly backdatedUsage: 'with-its-period' | 'first-invoice';
  /**
   * A tax on every line, in per cent: by Stripe Tax, or by tax rates of the subscription's items.
   * Accounts with Stripe Tax have no default for whether prices include it.
   */
  readonly tax?: {
    readonly percent: number;
    readonly behavior: 'exclusive' | 'inclusive';
    readonly isAutomatic: boolean;
  };
  /** A coupon of every customer, in per cent. */
  readonly discountPercent: number;
  /** The prepaid amount of every customer at first, for usage (billing credits). */
  readonly grantedCents: number;
  /**
   * A smaller amount is not collected: it goes on the next invoice
   * (https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts).
   */
  readonly minimumCents: number;
  /** True if somebody's automation turns off `auto_advance` on every draft, to check it first. */
  readonly stopsDrafts: boolean;
  /** How long sums of meters lag behind. */
  readonly sumsLagSeconds: number;
  /** True if `invoice_now` alone leaves metered usage out, which the guide on cancelling allows. */
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
  /** When it was accepted, milliseconds since the epoch. */
  readonly receivedAt: number;
  /** True if an adjustment cancelled it. */
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
  /** Remaining prepaid amounts of customers. */
  readonly grants: Map<string, number>;
  readonly balances: Map<string, number>;
  /** Drafts whose `invoice.created` an endpoint has not acknowledged. */
  readonly unacknowledged: Set<string>;
  /** Stripe's webhook messages, oldest first. */
  readonly notices: Notice[];
  readonly meters: Map<string, Meter>;
  readonly customers: Map<string, Customer>;
  readonly prices: Map<string, Price>;
  readonly subscriptions: Map<string, Subscription>;
  /** The events that Stripe counts, repeats of forgotten identifiers included. */
  readonly events: MeterEvent[];
  /** When an identifier was accepted, milliseconds since the epoch. */
  readonly identifiers: Map<string, number>;
  readonly coreEvents: CoreEvent[];
  /** Until when a token of the event stream is valid, milliseconds since the epoch. */
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
    unacknowledged: new Set(),
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

/** Returns the items that charge usage now. */
export function liveItems({ items }: Subscription): readonly SubscriptionItem[] {
  return items.filter(({ to }) => to === undefined);
}
