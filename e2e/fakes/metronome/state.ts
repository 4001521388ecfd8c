import type { StoredResult } from '../idempotency.ts';

/** What the stand-in keeps. Shapes are Metronome's own, reduced to what the stand-in acts on. */
export interface MetronomeState {
  readonly metrics: Metric[];
  readonly products: Product[];
  readonly rateCards: RateCard[];
  readonly rates: Rate[];
  readonly customers: Customer[];
  readonly billingProviders: BillingProvider[];
  readonly contracts: Contract[];
  /** Every event that was taken, in order; an id that was forgotten is there again. */
  readonly events: StoredEvent[];
  /** When an id was taken last, milliseconds since the epoch. */
  readonly takenAt: Map<string, number>;
  /** Repeats that were recognised. */
  repeats: number;
  /** Uniqueness keys of contracts; never released. */
  readonly spentKeys: Set<string>;
  /** Answers by idempotency key. */
  readonly results: Map<string, StoredResult>;
  /** Ids count up, so that a state that is built again from a journal has the same ones. */
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
  /** Milliseconds since the epoch; events that were taken before do not count. */
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
  readonly fiat_credit_type: { readonly id: string; readonly name: string };
}

export interface Rate {
  readonly rate_card_id: string;
  readonly product_id: string;
  readonly starting_at: string;
  readonly ending_before?: string;
  readonly entitled: boolean;
  readonly price: number;
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
  ending_before?: string;
  archived_at?: string;
  billingProviderId?: string;
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

export function createMetronomeState(): MetronomeState {
  let counter = 0;
  return {
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
    results: new Map(),
    nextId: () => {
      counter += 1;
      return `3e740000-0000-4000-8000-${counter.toString(16).padStart(12, '0')}`;
    },
  };
}
