import type { Exact } from '../exact.ts';
import type { StoredResult } from '../idempotency.ts';

/** The settings of an account, and choices where its documentation is silent. */
export interface MetronomeRules {
  /** From the end of a statement until it is final; 24 by default, may be 0. */
  readonly graceHours: number;
  /**
   * Whether a contract with an earlier start gets statements whose grace has ended
   * (https://docs.metronome.com/invoice-customers/how-invoicing-works/ does not say).
   */
  readonly pastStatements: 'never' | 'generated';
  /**
   * Calls a minute for each path of one customer; further ones get 429. Ingest has no limit.
   * Metronome publishes no numbers; no limit by default.
   */
  readonly callsPerMinute: number;
  /** For how long `POST /v1/usage` lacks accepted events; 0 by default. */
  readonly sumsLagSeconds: number;
}

/** The state of the stand-in. Shapes are Metronome's own, reduced to the fields that it uses. */
export interface MetronomeState {
  readonly rules: MetronomeRules;
  /** Final and void ones; drafts are computed for each request. */
  readonly invoices: Invoice[];
  /** Ids of drafts, by contract and start. */
  readonly draftIds: Map<string, string>;
  /** Metronome's webhook messages, oldest first. */
  readonly notices: Notice[];
  readonly alerts: CustomerAlert[];
  /** Until when time has been run, milliseconds since the epoch. */
  ranUntil: number;
  readonly metrics: Metric[];
  readonly products: Product[];
  readonly rateCards: RateCard[];
  readonly rates: Rate[];
  readonly customers: Customer[];
  readonly billingProviders: BillingProvider[];
  readonly contracts: Contract[];
  /** Every accepted event in order. A repeat of a forgotten id is another event. */
  readonly events: StoredEvent[];
  /** When an id was last accepted, milliseconds since the epoch. */
  readonly takenAt: Map<string, number>;
  /** Repeats that were recognised. */
  repeats: number;
  /** Uniqueness keys of contracts; never released. */
  readonly spentKeys: Set<string>;
  /** When calls came in the last minute, by path and customer. */
  readonly calls: Map<string, readonly number[]>;
  /** Answers by idempotency key. */
  readonly results: Map<string, StoredResult>;
  /** Returns the next id. Ids count up, so that a state from a journal has the same ones. */
  nextId(): string;
}

export interface Metric {
  readonly id: string;
  readonly name: string;
  readonly aggregation_type: string;
  readonly aggregation_key: string | undefined;
  readonly event_type_filter: Readonly<Record<string, unknown>>;
  readonly property_filters: readonly Readonly<Record<string, unknown>>[];
  readonly group_keys: readonly (readonly string[])[];
  /** Milliseconds since the epoch; events from before do not count. */
  readonly createdAt: number;
  archived_at?: string;
}

export interface ProductState {
  readonly name: string;
  readonly created_at: string;
  readonly billable_metric_id?: string;
  readonly pricing_group_key?: readonly string[];
  readonly presentation_group_key?: readonly string[];
}

export interface Product {
  readonly id: string;
  readonly type: string;
  readonly initial: ProductState;
  readonly updates: (Partial<ProductState> & { readonly starting_at: string })[];
}

export interface RateCard {
  readonly id: string;
  readonly name: string;
  readonly created_at: string;
  readonly aliases: readonly Readonly<Record<string, unknown>>[];
  readonly description?: string;
  readonly fiat_credit_type: { readonly id: string; readonly name: string };
}

export interface Rate {
  readonly rate_card_id: string;
  readonly product_id: string;
  readonly starting_at: string;
  readonly ending_before?: string;
  readonly entitled: boolean;
  readonly rate_type: 'FLAT' | 'TIERED';
  /** For TIERED the price of the first tier. */
  readonly price: number;
  /** Only the last one has no size. */
  readonly tiers?: readonly { readonly price: number; readonly size?: number }[];
  readonly pricing_group_values?: Readonly<Record<string, string>>;
}

export interface Customer {
  readonly id: string;
  name: string;
  ingest_aliases: readonly string[];
  readonly created_at: string;
  archived_at?: string;
}

export interface BillingProvider {
  readonly id: string;
  readonly customer_id: string;
  readonly billing_provider: string;
  readonly delivery_method: string;
  readonly configuration: Readonly<Record<string, unknown>>;
  archived_at?: string;
}

export interface Contract {
  readonly id: string;
  readonly customer_id: string;
  readonly name: string | undefined;
  readonly rate_card_id: string;
  readonly starting_at: string;
  readonly uniqueness_key: string | undefined;
  readonly usage_filter: readonly unknown[];
  readonly schedule: StatementSchedule;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Until when its usage is on final invoices; undefined where it is on none. */
  finalUntil?: number;
  ending_before?: string;
  archived_at?: string;
  billingProviderId?: string;
  net_payment_terms_days?: number;
  /** Commits and credits that are on it. */
  balances: readonly Balance[];
}

export interface StatementSchedule {
  readonly frequency: 'WEEKLY' | 'MONTHLY' | 'QUARTERLY' | 'ANNUAL';
  /** Statements begin full intervals after it, milliseconds since the epoch. */
  readonly anchor: number;
}

export interface Invoice {
  readonly id: string;
  readonly customer_id: string;
  readonly contract_id: string;
  readonly from: number;
  readonly to: number;
  status: 'DRAFT' | 'FINALIZED' | 'VOID';
  /** When it became final; when it will, for a draft. */
  readonly finalAt: number;
  readonly lines: readonly InvoiceLine[];
  readonly applied: readonly Applied[];
}

export interface InvoiceLine {
  readonly product_id: string;
  readonly name: string;
  readonly values: Readonly<Record<string, string>>;
  readonly quantity: Exact;
  readonly price: Exact;
  /** In the unit of the card's credit type: cents of USD. */
  readonly total: Exact;
  readonly events: readonly StoredEvent[];
}

/**
 * Money that a contract has beforehand, in the unit of its card's credit type: a prepaid commit or
 * a credit.
 */
export interface Balance {
  readonly id: string;
  readonly type: 'PREPAID' | 'CREDIT';
  readonly amount: Exact;
  /** `[from, to)`, milliseconds since the epoch: when usage draws from it. */
  readonly from: number;
  readonly to: number;
  /** When it is paid, on an invoice of its own; undefined for a credit. */
  readonly paidAt: number | undefined;
}

/** The amount that an invoice line draws from a balance. */
export interface Applied {
  readonly balance: Balance;
  readonly line: InvoiceLine;
  readonly amount: Exact;
}

/** A webhook message about contracts and invoices, which is flat. */
export interface Notice {
  readonly id: string;
  readonly type: string;
  readonly at: number;
  readonly about: Readonly<Record<string, string>>;
}

/** The state of a threshold alert for one customer. */
export interface CustomerAlert {
  readonly customer_id: string;
  readonly alert: {
    readonly id: string;
    readonly name: string;
    readonly type: string;
    readonly status: 'enabled' | 'archived' | 'disabled';
    readonly threshold: number;
    readonly updated_at: string;
  };
  customer_status: 'ok' | 'in_alarm' | 'evaluating' | null;
}

export interface StoredEvent {
  readonly transaction_id: string;
  readonly customer_id: string;
  readonly event_type: string;
  readonly timestamp: string;
  readonly properties: Readonly<Record<string, unknown>>;
  /** When it was taken, milliseconds since the epoch. */
  readonly takenAt: number;
}

export function createMetronomeState(rules: Partial<MetronomeRules> = {}): MetronomeState {
  let counter = 0;
  return {
    rules: {
      graceHours: 24,
      pastStatements: 'never',
      callsPerMinute: Number.POSITIVE_INFINITY,
      sumsLagSeconds: 0,
      ...rules,
    },
    invoices: [],
    draftIds: new Map(),
    notices: [],
    alerts: [],
    ranUntil: 0,
    metrics: [],
    products: [],
    rateCards: [],
    rates: [],
    customers: [],
    billingProviders: [],
    contracts: [],
    events: [],
    takenAt: new Map(),
    repeats: 0,
    spentKeys: new Set(),
    calls: new Map(),
    results: new Map(),
    nextId: () => {
      counter += 1;
      return `3e740000-0000-4000-8000-${counter.toString(16).padStart(12, '0')}`;
    },
  };
}

/** Returns whether a contract bills usage of a moment, milliseconds since the epoch. */
export function covers({ starting_at, ending_before }: Contract, at: number): boolean {
  const end = ending_before === undefined ? Number.POSITIVE_INFINITY : Date.parse(ending_before);
  return Date.parse(starting_at) <= at && at < end;
}

/** Returns the customer of an event: by id or by alias, whenever the alias was set. */
export function customerOf(state: MetronomeState, reference: string): Customer | undefined {
  return state.customers.find(
    ({ id, ingest_aliases }) => id === reference || ingest_aliases.includes(reference),
  );
}
