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
  deleted: boolean;
}

export interface Price {
  readonly id: string;
  readonly created: number;
  readonly currency: string;
  readonly product: string;
  readonly unit_amount_decimal: string | null;
  readonly interval: string;
  readonly meter: string | null;
  active: boolean;
  nickname: string | null;
  metadata: Record<string, string>;
}

/** From when to when usage is charged by it, seconds since the epoch. */
export interface SubscriptionItem {
  readonly id: string;
  price: string;
  readonly from: number;
  to: number | undefined;
}

export interface Subscription {
  readonly id: string;
  readonly created: number;
  readonly customer: string;
  readonly start: number;
  readonly currency: string;
  status: 'active' | 'past_due' | 'unpaid' | 'incomplete' | 'canceled';
  cancelAtPeriodEnd: boolean;
  endedAt: number | undefined;
  metadata: Record<string, string>;
  /** Removed ones too. */
  items: SubscriptionItem[];
  /** Prices that were charged once and are no more: an item whose price was replaced. */
  replaced: SubscriptionItem[];
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
}

export interface CoreEvent {
  readonly id: string;
  readonly type: string;
  readonly created: string;
  readonly related_object: { readonly id: string; readonly type: string } | null;
  readonly data: unknown;
}

export interface StripeState {
  readonly meters: Map<string, Meter>;
  readonly customers: Map<string, Customer>;
  readonly prices: Map<string, Price>;
  readonly subscriptions: Map<string, Subscription>;
  /** What Stripe counts, repeats of forgotten identifiers included. */
  readonly events: MeterEvent[];
  /** When an identifier was taken, milliseconds since the epoch. */
  readonly identifiers: Map<string, number>;
  readonly coreEvents: CoreEvent[];
  /** By idempotency key. */
  readonly results: Map<string, StoredResult>;
  /** Repeats that were recognised. */
  repeats: number;
  /** Objects made so far. */
  count: number;
}

export function createStripeState(): StripeState {
  return {
    meters: new Map(),
    customers: new Map(),
    prices: new Map(),
    subscriptions: new Map(),
    events: [],
    identifiers: new Map(),
    coreEvents: [],
    results: new Map(),
    repeats: 0,
    count: 0,
  };
}

export function nextId(state: StripeState, prefix: string): string {
  state.count += 1;
  return `${prefix}_${String(state.count).padStart(6, '0')}`;
}
