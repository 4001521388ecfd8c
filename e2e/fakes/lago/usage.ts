import type { FakeResponse } from '../fake-server.ts';
import { exact, sum, textOf, times, rounded, ZERO } from '../exact.ts';
import { notAllowed, notFound, ok } from './answers.ts';
import { periodAt } from './billing-period.ts';
import { amountOf } from './charge-models.ts';
import { filterOf, unitsOf } from './fees.ts';
import {
  activeSubscription,
  type Charge,
  type ChargeFilter,
  type LagoState,
  type StoredEvent,
  type Subscription,
} from './state.ts';

const CENTS = exact('100');

/** The usage of one charge of a subscription. */
export interface ChargeUsage {
  readonly charge: Charge;
  /** Plain decimal text. */
  readonly units: string;
  readonly events: number;
  /** The sum of `fees`, each rounded, as on an invoice. */
  readonly amountCents: number;
  /** One for each price of the charge that has usage. */
  readonly fees: readonly FilterUsage[];
}

/** The usage of one price of a charge. */
interface FilterUsage {
  /** Undefined for the charge's own price. */
  readonly filter: ChargeFilter | undefined;
  /** Plain decimal text. */
  readonly units: string;
  readonly events: number;
  readonly amountCents: number;
}

/**
 * Returns the usage of a subscription's charges: its events under a metric of its plan, with a
 * numeric value and a timestamp within it or within a shorter time. Sums may be somewhat old.
 */
export function chargesOf(
  state: LagoState,
  subscription: Subscription,
  time = { from: 0, to: Number.POSITIVE_INFINITY },
  storedBy = Number.POSITIVE_INFINITY,
): ChargeUsage[] {
  const plan = state.plans.get(subscription.plan_code);
  const from = Math.max(startOf(subscription), time.from);
  const to = Math.min(endOf(subscription), time.to);
  const mine = [...state.events.values()].filter(
    (event) =>
      event.external_subscription_id === subscription.external_id &&
      event.at >= from &&
      event.at <= to &&
      Date.parse(event.created_at) <= storedBy,
  );
  return (plan?.charges ?? []).map((charge) => {
    const events = mine.filter(({ code }) => code === charge.billable_metric_code);
    const unitsIn = (some: readonly StoredEvent[]) =>
      sum(some.map((event) => unitsOf(state, event) ?? ZERO));
    const fees = [...Map.groupBy(events, (event) => filterOf(charge, event))].map(
      ([filter, own]): FilterUsage => {
        const used = unitsIn(own);
        const amount = amountOf(charge.charge_model, (filter ?? charge).properties, used);
        const amountCents = rounded(times(amount, CENTS));
        return { filter, units: textOf(used), events: own.length, amountCents };
      },
    );
    const amountCents = fees.reduce((total, fee) => total + fee.amountCents, 0);
    return { charge, units: textOf(unitsIn(events)), events: events.length, amountCents, fees };
  });
}

/**
 * Returns events that no subscription bills by their timestamp, for tests. Events that arrived too
 * late are not among them; `accountOf` has those.
 */
export function unbilledEvents(state: LagoState): readonly StoredEvent[] {
  return [...state.events.values()].filter((event) => {
    const subscriptions = state.subscriptions.filter(
      ({ external_id }) => external_id === event.external_subscription_id,
    );
    return !subscriptions.some((subscription) => {
      const inTime = event.at >= startOf(subscription) && event.at <= endOf(subscription);
      const charged = state.plans
        .get(subscription.plan_code)
        ?.charges.find(({ billable_metric_code }) => billable_metric_code === event.code);
      return inTime && charged !== undefined && unitsOf(state, event) !== undefined;
    });
  });
}

/** Infinite before it begins. */
export function startOf({ started_at }: Subscription): number {
  return started_at === null ? Number.POSITIVE_INFINITY : Date.parse(started_at);
}

/** Infinite while it goes on. */
export function endOf({ terminated_at }: Subscription): number {
  return terminated_at === null ? Number.POSITIVE_INFINITY : Date.parse(terminated_at);
}

/** Returns the running period of the active subscription. */
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
  const period = periodAt(state, subscription, at);
  const usage = chargesOf(state, subscription, period, at - state.rules.usageCacheMs);
  const total = usage.reduce((sum, { amountCents }) => sum + amountCents, 0);
  const currency = state.plans.get(subscription.plan_code)?.amount_currency ?? 'USD';
  return ok({
    customer_usage: {
      from_datetime: new Date(Math.max(period.from, startOf(subscription))).toISOString(),
      to_datetime: new Date(period.to).toISOString(),
      issuing_date: new Date(period.to + 1).toISOString().slice(0, 10),
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
          amount_cents: amountCents,
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
