/** What the stand-in keeps. Shapes are Lago's own, reduced to what the stand-in acts on. */
export interface LagoState {
  readonly metrics: Map<string, Metric>;
  readonly plans: Map<string, Plan>;
  readonly customers: Map<string, Customer>;
  readonly subscriptions: Subscription[];
  /** By what the event store takes for the same event, in the order in which they were stored. */
  readonly events: Map<string, StoredEvent>;
  /** Ids count up, so that a state that is built again from a journal has the same ones. */
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
  readonly created_at: string;
  charges: Charge[];
}

export interface Charge {
  readonly lago_id: string;
  readonly lago_billable_metric_id: string;
  readonly billable_metric_code: string;
  readonly code: string;
  readonly charge_model: string;
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
  metadata: readonly { readonly key: string; readonly value: string }[];
}

export interface Subscription {
  readonly lago_id: string;
  readonly external_id: string;
  readonly external_customer_id: string;
  plan_code: string;
  status: 'pending' | 'active' | 'terminated' | 'canceled';
  readonly subscription_at: string;
  readonly started_at: string;
  readonly created_at: string;
  terminated_at: string | null;
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

export function createLagoState(): LagoState {
  let counter = 0;
  return {
    metrics: new Map(),
    plans: new Map(),
    customers: new Map(),
    subscriptions: [],
    events: new Map(),
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
