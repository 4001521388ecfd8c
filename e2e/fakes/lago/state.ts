import type { Exact } from '../exact.ts';

/** The settings of an installation of Lago. */
export interface LagoRules {
  /**
   * Days for which invoices stay drafts where the customer has no number of its own; 0 without a
   * licence.
   */
  readonly graceDays: number;
  /** Days after the issuing date until an unpaid invoice is overdue; undefined for never. */
  readonly netTermDays: number | undefined;
  /** True with a licence: credit notes are refused without one. */
  readonly isPremium: boolean;
  /**
   * A tax on every charge, in per cent: of customers, of the charges alone, or of a tax provider.
   */
  readonly tax?: { readonly percent: number; readonly of: 'customer' | 'charge' | 'provider' };
  /** A coupon of every customer, in per cent. */
  readonly couponPercent: number;
  /** Prepaid credit in the wallet of every customer; it pays invoices first. */
  readonly walletCents: number;
  /** Calls a second, as Lago Cloud limits them; undefined for no limit. */
  readonly callsPerSecond: number | undefined;
  /**
   * Only for ClickHouse: how long after the answer an event is stored, and can be listed and
   * counted.
   */
  readonly ingestMs: number;
  /** How old the sums of current usage may be. */
  readonly usageCacheMs: number;
}

/** The state of the stand-in. Shapes are Lago's own, reduced to the fields that it uses. */
export interface LagoState {
  readonly rules: LagoRules;
  /** In the order in which they were made. */
  readonly invoices: Invoice[];
  readonly creditNotes: CreditNote[];
  readonly addOns: Map<string, AddOn>;
  /** Events that the hourly validation has not checked yet. */
  unvalidated: StoredEvent[];
  /** Lago's webhook messages, oldest first. */
  readonly notices: Notice[];
  /**
   * Until when its jobs have run, milliseconds since the epoch; undefined before the first request.
   */
  jobsRunUntil: number | undefined;
  readonly metrics: Map<string, Metric>;
  readonly plans: Map<string, Plan>;
  readonly customers: Map<string, Customer>;
  readonly subscriptions: Subscription[];
  /** Events in the order in which they were stored, by the key that makes them the same event. */
  readonly events: Map<string, StoredEvent>;
  /** Events with an answer that are not stored yet. */
  ingesting: { readonly dueAt: number; readonly event: StoredEvent }[];
  /** Cents left in the wallet of a customer that has paid from it. */
  readonly wallets: Map<string, number>;
  /** The number of calls in the last second with a call. */
  calls: { readonly second: number; readonly count: number };
  /** Repeats under ClickHouse: each is listed, and the event counts once. */
  readonly repeats: StoredEvent[];
  /** Returns the next id. Ids count up, so that a state from a journal has the same ones. */
  nextId(): string;
}

export interface Metric {
  readonly lago_id: string;
  name: string;
  readonly code: string;
  description: string | null;
  readonly aggregation_type: string;
  readonly field_name: string | null;
  readonly recurring: boolean;
  readonly created_at: string;
  filters: readonly MetricFilter[];
}

export interface MetricFilter {
  readonly key: string;
  readonly values: readonly string[];
}

export interface Plan {
  readonly lago_id: string;
  name: string;
  readonly code: string;
  readonly interval: string;
  readonly amount_cents: number;
  readonly amount_currency: string;
  readonly pay_in_advance: boolean;
  /** The minimum of a period. */
  readonly minimum_commitment: { readonly amount_cents: number } | null;
  /** The amounts of usage at which a subscription is invoiced for its usage so far. */
  readonly usage_thresholds: readonly { readonly amount_cents: number; readonly recurring: true }[];
  readonly created_at: string;
  charges: Charge[];
}

export interface Charge {
  readonly lago_id: string;
  readonly lago_billable_metric_id: string;
  readonly billable_metric_code: string;
  readonly code: string;
  charge_model: string;
  readonly pay_in_advance: boolean;
  /** The minimum of a period. */
  readonly min_amount_cents: number;
  readonly created_at: string;
  properties: Readonly<Record<string, unknown>>;
  filters: readonly ChargeFilter[];
}

export interface ChargeFilter {
  readonly properties: Readonly<Record<string, unknown>>;
  readonly values: Readonly<Record<string, readonly string[]>>;
}

export interface Customer {
  readonly lago_id: string;
  readonly external_id: string;
  readonly created_at: string;
  name: string | null;
  email: string | null;
  currency: string | null;
  timezone: string | null;
  /** Days; null where the installation's number applies. */
  invoice_grace_period: number | null;
  /** Days; null where the installation's number applies. */
  net_payment_term: number | null;
  country: string | null;
  address_line1: string | null;
  address_line2: string | null;
  city: string | null;
  state: string | null;
  zipcode: string | null;
  tax_identification_number: string | null;
  metadata: readonly { readonly key: string; readonly value: string }[];
}

/**
 * A plan of a customer for a time. A change of plan ends it and begins another with the same
 * external id.
 */
export interface Subscription {
  readonly lago_id: string;
  readonly external_id: string;
  readonly external_customer_id: string;
  plan_code: string;
  status: 'pending' | 'active' | 'terminated' | 'canceled';
  readonly billing_time: string;
  readonly subscription_at: string;
  /** Null while it is pending. */
  started_at: string | null;
  readonly created_at: string;
  terminated_at: string | null;
  ending_at: string | null;
  /** The subscription that it replaces. */
  readonly previous_id: string | null;
  on_termination_invoice: 'generate' | 'skip';
  /** The day, in days since the epoch, on which its last periodic invoice was made. */
  billedOn: number | undefined;
  /** The number of usage thresholds that it has been invoiced for. */
  thresholds: number;
}

/**
 * The part of a subscription that is on an invoice, in milliseconds since the epoch; both ends
 * included.
 */
export interface InvoiceScope {
  readonly subscription: string;
  readonly from: number;
  readonly to: number;
}

export interface Invoice {
  readonly lago_id: string;
  readonly number: string;
  readonly customer: string;
  readonly currency: string;
  readonly type: 'subscription' | 'one_off' | 'progressive_billing';
  readonly reason:
    | 'progressive_billing'
    | 'subscription_periodic'
    | 'subscription_terminating'
    | 'in_advance_charge'
    | 'one_off';
  readonly scopes: readonly InvoiceScope[];
  readonly createdAt: number;
  status: 'draft' | 'finalized' | 'voided';
  /** The day, in days since the epoch, from which a draft may be final. */
  readonly issuingDay: number;
  finalizedAt: number | undefined;
  voidedAt: number | undefined;
  payment_status: 'pending' | 'succeeded' | 'failed';
  payment_overdue: boolean;
  fees: readonly Fee[];
  /** The cents that progressive invoices have of it. */
  progressiveCents: number;
  /** Paid from the wallet. */
  prepaidCents: number;
}

export interface Fee {
  readonly lago_id: string;
  readonly type: 'charge' | 'subscription' | 'add_on' | 'commitment';
  /** The code of the metric, the plan or the add-on. */
  readonly code: string;
  readonly charge: string | null;
  /** The fee that a charge's minimum adds to. */
  readonly trueUpOf?: string;
  readonly filters: Readonly<Record<string, readonly string[]>> | null;
  readonly subscription: string | null;
  readonly units: Exact;
  /** In cents, not rounded. */
  readonly cents: Exact;
  /** Of a unit, in the main unit of the currency, not rounded. */
  readonly each: Exact;
  readonly displayName?: string | undefined;
  readonly description?: string | undefined;
  /** The taxes that a one-off fee names. */
  readonly taxCodes?: readonly string[] | undefined;
  /** Ids of the events that it counts. */
  readonly events: readonly string[];
  readonly from: number | null;
  readonly to: number | null;
}

export interface AddOn {
  readonly lago_id: string;
  readonly name: string;
  readonly code: string;
  readonly amount_cents: number;
  readonly amount_currency: string;
}

export interface CreditNote {
  readonly lago_id: string;
  readonly invoice: string;
  readonly reason: string;
  readonly description: string | undefined;
  readonly cents: number;
  readonly items: readonly { readonly fee: string; readonly cents: number }[];
  readonly createdAt: number;
}

/** One webhook: `about` is the object under its own name. */
export interface Notice {
  readonly id: string;
  readonly type: string;
  readonly objectType: string;
  readonly about: unknown;
  readonly at: number;
}

export interface StoredEvent {
  readonly lago_id: string;
  readonly transaction_id: string;
  readonly external_subscription_id: string;
  readonly code: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly properties: Readonly<Record<string, unknown>>;
  readonly created_at: string;
}

export function createLagoState(rules: Partial<LagoRules> = {}): LagoState {
  let counter = 0;
  return {
    rules: {
      graceDays: 0,
      netTermDays: undefined,
      isPremium: true,
      walletCents: 0,
      callsPerSecond: undefined,
      ingestMs: 0,
      usageCacheMs: 0,
      couponPercent: 0,
      ...rules,
    },
    invoices: [],
    creditNotes: [],
    addOns: new Map(),
    unvalidated: [],
    notices: [],
    jobsRunUntil: undefined,
    metrics: new Map(),
    plans: new Map(),
    customers: new Map(),
    subscriptions: [],
    events: new Map(),
    ingesting: [],
    wallets: new Map(),
    calls: { second: 0, count: 0 },
    repeats: [],
    nextId: () => {
      counter += 1;
      return `1a900000-0000-4000-8000-${counter.toString(16).padStart(12, '0')}`;
    },
  };
}

/** The active subscription with an external id. */
export function activeSubscription(state: LagoState, externalId: string): Subscription | undefined {
  return state.subscriptions.find(
    ({ external_id, status }) => external_id === externalId && status === 'active',
  );
}

/** Returns the successor of a subscription, unless it was cancelled. */
export function nextSubscription(
  state: LagoState,
  subscription: Subscription,
): Subscription | undefined {
  return state.subscriptions.find(
    ({ previous_id, status }) => previous_id === subscription.lago_id && status !== 'canceled',
  );
}

export function zoneOf(state: LagoState, customer: string): string {
  return state.customers.get(customer)?.timezone ?? 'UTC';
}
