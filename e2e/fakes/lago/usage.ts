import type { FakeResponse } from '../fake-server.ts';
import { notAllowed, notFound, ok } from './answers.ts';
import {
  activeSubscription,
  type Charge,
  type ChargeFilter,
  type LagoState,
  type StoredEvent,
  type Subscription,
} from './state.ts';

const SCALE = 18;
/** Lago counts only values whose text looks like this; anything else is skipped without a word. */
const COUNTED = /^-?\d+(\.\d+)?$/;

const ALL_VALUES = '__ALL_FILTER_VALUES__';
const CENTS = 100n;

/** What one charge of a subscription comes to. */
export interface ChargeUsage {
  readonly charge: Charge;
  /** Plain decimal text. */
  readonly units: string;
  readonly events: number;
  readonly amountCents: number;
}

/**
 * The events of a subscription that Lago bills: those with a timestamp from its start to its end, under
 * a metric of its plan, whose value is a number by its text.
 */
export function chargesOf(state: LagoState, subscription: Subscription): ChargeUsage[] {
  const plan = state.plans.get(subscription.plan_code);
  const from = Date.parse(subscription.started_at);
  const to = Date.parse(subscription.terminated_at ?? '') || Number.POSITIVE_INFINITY;
  const mine = [...state.events.values()].filter(
    (event) =>
      event.external_subscription_id === subscription.external_id &&
      event.at >= from &&
      event.at <= to,
  );
  return (plan?.charges ?? []).map((charge) => {
    const field = state.metrics.get(charge.billable_metric_code)?.field_name ?? '';
    const events = mine.filter(({ code }) => code === charge.billable_metric_code);
    let units = 0n;
    let amount = 0n;
    for (const event of events) {
      const value = scaled(event.properties[field]) ?? 0n;
      units += value;
      amount += multiplied(value, scaled(priceOf(charge, event)) ?? 0n);
    }
    const amountCents = Number(unscaled(amount * CENTS));
    return { charge, units: unscaled(units), events: events.length, amountCents };
  });
}

/** Events that no subscription bills, for tests: sent in vain. */
export function unbilledEvents(state: LagoState): readonly StoredEvent[] {
  return [...state.events.values()].filter((event) => {
    const subscriptions = state.subscriptions.filter(
      ({ external_id }) => external_id === event.external_subscription_id,
    );
    return !subscriptions.some((subscription) => {
      const end = Date.parse(subscription.terminated_at ?? '') || Number.POSITIVE_INFINITY;
      const inTime = event.at >= Date.parse(subscription.started_at) && event.at <= end;
      const charged = state.plans
        .get(subscription.plan_code)
        ?.charges.find(({ billable_metric_code }) => billable_metric_code === event.code);
      const field = state.metrics.get(event.code)?.field_name ?? '';
      return inTime && charged !== undefined && scaled(event.properties[field]) !== undefined;
    });
  });
}

export function currentUsage(
  state: LagoState,
  customerId: string,
  subscriptionId: string | null,
  at: number,
): FakeResponse {
  if (!state.customers.has(customerId)) return notFound('customer');
  const subscription = activeSubscription(state, subscriptionId ?? '');
  if (subscription === undefined || subscription.external_customer_id !== customerId) {
    return notAllowed('no_active_subscription');
  }
  const usage = chargesOf(state, subscription);
  const total = usage.reduce((sum, { amountCents }) => sum + Math.round(amountCents), 0);
  const currency = state.plans.get(subscription.plan_code)?.amount_currency ?? 'USD';
  return ok({
    customer_usage: {
      from_datetime: monthStart(at),
      to_datetime: new Date(at).toISOString(),
      issuing_date: new Date(at).toISOString().slice(0, 10),
      lago_invoice_id: null,
      currency,
      amount_cents: total,
      taxes_amount_cents: 0,
      total_amount_cents: total,
      charges_usage: usage.map(({ charge, units, events, amountCents }) => {
        const metric = state.metrics.get(charge.billable_metric_code);
        return {
          units,
          total_aggregated_units: units,
          events_count: events,
          amount_cents: Math.round(amountCents),
          amount_currency: currency,
          charge: {
            lago_id: charge.lago_id,
            code: charge.code,
            charge_model: charge.charge_model,
            invoice_display_name: null,
          },
          billable_metric: {
            lago_id: metric?.lago_id,
            name: metric?.name,
            code: metric?.code,
            aggregation_type: metric?.aggregation_type,
          },
          filters: [],
          grouped_usage: [],
        };
      }),
    },
  });
}

/** The most specific filter that matches prices an event; with none the charge's own properties do. */
function priceOf(charge: Charge, event: StoredEvent): unknown {
  const best = charge.filters
    .filter((filter) => matches(filter, event))
    .toSorted((a, b) => Object.keys(b.values).length - Object.keys(a.values).length)
    .at(0);
  return (best ?? charge).properties['amount'];
}

function matches({ values }: ChargeFilter, event: StoredEvent): boolean {
  return Object.entries(values).every(([key, wanted]) => {
    const value = event.properties[key];
    if (value === undefined) return false;
    return (
      wanted.includes(ALL_VALUES) ||
      wanted.includes(typeof value === 'string' ? value : JSON.stringify(value))
    );
  });
}

function monthStart(at: number): string {
  const date = new Date(at);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)).toISOString();
}

/** A property's value in units of 10^-18; undefined when Lago would not count it. */
function scaled(value: unknown): bigint | undefined {
  const text = typeof value === 'number' ? JSON.stringify(value) : value;
  if (typeof text !== 'string' || !COUNTED.test(text)) return undefined;
  const negative = text.startsWith('-');
  const [whole = '0', fraction = ''] = text.replace('-', '').split('.');
  const digits = BigInt(whole + fraction.slice(0, SCALE).padEnd(SCALE, '0'));
  return negative ? -digits : digits;
}

/** Plain decimal text of a scaled number. */
function unscaled(value: bigint): string {
  const digits = (value < 0n ? -value : value).toString().padStart(SCALE + 1, '0');
  const whole = digits.slice(0, -SCALE);
  const fraction = digits.slice(-SCALE).replace(/0+$/, '');
  return `${value < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** The product of two scaled numbers, scaled. */
function multiplied(a: bigint, b: bigint): bigint {
  return (a * b) / 10n ** BigInt(SCALE);
}
