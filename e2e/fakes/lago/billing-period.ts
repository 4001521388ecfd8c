import { type Cycle, dayOf, periodOf, startOfDay } from './calendar.ts';
import {
  type InvoiceScope,
  type LagoState,
  nextSubscription,
  type Subscription,
  zoneOf,
} from './state.ts';

const DAY_MS = 86_400_000;

/** Returns the period of a subscription at a moment; it includes both ends. */
export function periodAt(
  state: LagoState,
  subscription: Subscription,
  at: number,
): { readonly from: number; readonly to: number } {
  const zone = zoneOf(state, subscription.external_customer_id);
  const { first, next } = periodOf(dayOf(at, zone), cycleOf(state, subscription));
  return { from: startOfDay(first, zone), to: startOfDay(next, zone) - 1 };
}

/** Returns whether Lago invoices a subscription's last period on the day of a moment. */
export function isBillingDay(state: LagoState, subscription: Subscription, at: number): boolean {
  const zone = zoneOf(state, subscription.external_customer_id);
  const day = dayOf(at, zone);
  return periodOf(day, cycleOf(state, subscription)).first === day;
}

/** Returns the period before a moment. Older usage gets on no further invoice. */
export function scopeBefore(
  state: LagoState,
  subscription: Subscription,
  at: number,
): InvoiceScope {
  const { from } = periodAt(state, subscription, at);
  const before = periodAt(state, subscription, from - 1);
  return scope(subscription, before.from, before.to);
}

/**
 * Returns the period of a subscription's last invoice: the current period until the end. If the
 * billing run is still to come on the billing day, it is the previous period alone, and the first
 * hours of the new one are on no invoice (lago-api
 * app/services/invoices/create_invoice_subscription_service.rb, termination_boundaries).
 */
export function scopeOfEnd(state: LagoState, subscription: Subscription, at: number): InvoiceScope {
  const zone = zoneOf(state, subscription.external_customer_id);
  const started = Date.parse(subscription.started_at ?? '');
  const isAlone = nextSubscription(state, subscription) === undefined;
  const isUnbilled = subscription.billedOn !== dayOf(at, zone);
  if (isAlone && isUnbilled && at - DAY_MS >= started && isBillingDay(state, subscription, at)) {
    return scopeBefore(state, subscription, at);
  }
  return scope(subscription, periodAt(state, subscription, at).from, at);
}

/** Returns a scope that begins no earlier than the subscription. */
function scope(subscription: Subscription, from: number, to: number): InvoiceScope {
  const started = Date.parse(subscription.started_at ?? '');
  return { subscription: subscription.lago_id, from: Math.max(from, started), to };
}

/** Returns the settings that decide when a subscription's periods begin. */
export function cycleOf(state: LagoState, subscription: Subscription): Cycle {
  const { plan_code, billing_time, subscription_at, external_customer_id } = subscription;
  return {
    interval: state.plans.get(plan_code)?.interval ?? 'monthly',
    billingTime: billing_time,
    anchorDay: dayOf(Date.parse(subscription_at), zoneOf(state, external_customer_id)),
  };
}
