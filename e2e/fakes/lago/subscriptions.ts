import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { invalid, notFound, ok, page, text } from './answers.ts';
import { addCustomer } from './customers.ts';
import { dayOf, intervalsPerYear } from './calendar.ts';
import { handOver, start, terminate } from './lifecycle.ts';
import { notifySubscription } from './notices.ts';
import {
  activeSubscription,
  type LagoState,
  nextSubscription,
  type Plan,
  type Subscription,
  zoneOf,
} from './state.ts';
import { showSubscription as show } from './subscription-view.ts';

export function listSubscriptions(
  state: LagoState,
  { query, at }: FakeRequest,
  customer: string | null = query.get('external_customer_id'),
): FakeResponse {
  const requested = query.getAll('status[]');
  const statuses = new Set(requested.length === 0 ? ['active'] : requested);
  const externalId = query.get('external_id');
  const plan = query.get('plan_code');
  const found = state.subscriptions.filter(
    (one) =>
      statuses.has(one.status) &&
      (customer === null || one.external_customer_id === customer) &&
      (externalId === null || one.external_id === externalId) &&
      (plan === null || one.plan_code === plan),
  );
  return page(
    'subscriptions',
    found.map((one) => show(state, one, at)),
    query,
  );
}

/** Returns the newest subscription of the id in the requested status; the active one by default. */
function requestedFor(state: LagoState, externalId: string, query: FakeRequest['query']) {
  const status = query.get('status') ?? 'active';
  return state.subscriptions.findLast(
    (one) => one.external_id === externalId && one.status === status,
  );
}

export function showSubscription(
  state: LagoState,
  externalId: string,
  { query, at }: FakeRequest,
): FakeResponse {
  const subscription = requestedFor(state, externalId, query);
  return subscription === undefined
    ? notFound('subscription')
    : ok({ subscription: show(state, subscription, at) });
}

/**
 * Creates a subscription, or changes the one with the same external id and customer. Another plan
 * takes over at once if its yearly base fee is at least as high, else on the billing day.
 * Requesting the current plan does not cancel a waiting one (lago-api
 * app/services/subscriptions/create_service.rb).
 */
export function createSubscription(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const customer = text(input['external_customer_id']);
  const plan = state.plans.get(text(input['plan_code']) ?? '');
  const externalId = text(input['external_id']);
  if (customer === undefined) return invalid({ external_customer_id: ['value_is_mandatory'] });
  if (plan === undefined) return notFound('plan');
  if (externalId === undefined) return invalid({ external_id: ['value_is_mandatory'] });
  const existing = activeSubscription(state, externalId) ?? startingSubscription(state, externalId);
  if (existing !== undefined && existing.external_customer_id !== customer) {
    return invalid({ external_id: ['value_already_exist'] });
  }
  if (existing !== undefined && existing.plan_code !== plan.code) {
    const current = changePlan(state, existing, plan, at);
    return ok({ subscription: show(state, current, at) });
  }
  if (existing !== undefined) return ok({ subscription: show(state, existing, at) });
  const requestedAt = Date.parse(text(input['subscription_at']) ?? new Date(at).toISOString());
  if (!Number.isFinite(requestedAt)) return invalid({ subscription_at: ['invalid_date'] });
  const endingAt = text(input['ending_at']);
  if (endingAt !== undefined && !(Date.parse(endingAt) > at)) {
    return invalid({ ending_at: ['invalid_date'] });
  }
  if (!state.customers.has(customer)) addCustomer(state, customer, at);
  const subscription = add(state, {
    external_id: externalId,
    external_customer_id: customer,
    plan_code: plan.code,
    billing_time: text(input['billing_time']) ?? 'calendar',
    subscription_at: new Date(requestedAt).toISOString(),
    created_at: new Date(at).toISOString(),
    ending_at: endingAt ?? null,
    previous_id: null,
  });
  if (requestedAt <= at || isToday(state, customer, requestedAt, at)) {
    start(state, subscription, startOf(state, subscription, requestedAt, at));
  }
  return ok({ subscription: show(state, subscription, at) });
}

/** Returns a subscription with a future start, which may change as it is. */
function startingSubscription(state: LagoState, externalId: string): Subscription | undefined {
  return state.subscriptions.find(
    ({ external_id, status, previous_id }) =>
      external_id === externalId && status === 'pending' && previous_id === null,
  );
}

/** Changes the plan and returns the subscription that is or will be active. */
function changePlan(state: LagoState, current: Subscription, plan: Plan, at: number): Subscription {
  if (current.status === 'pending') {
    current.plan_code = plan.code;
    return current;
  }
  const waiting = nextSubscription(state, current);
  if (waiting !== undefined) waiting.status = 'canceled';
  const next = add(state, {
    external_id: current.external_id,
    external_customer_id: current.external_customer_id,
    plan_code: plan.code,
    billing_time: current.billing_time,
    subscription_at: current.subscription_at,
    created_at: new Date(at).toISOString(),
    ending_at: current.ending_at,
    previous_id: current.lago_id,
  });
  if (yearlyFee(plan) < yearlyFee(state.plans.get(current.plan_code))) {
    notifySubscription(state, 'subscription.updated', current, at);
    return current;
  }
  handOver(state, current, next, at);
  return next;
}

function yearlyFee(plan: Plan | undefined): number {
  return plan === undefined ? 0 : plan.amount_cents * intervalsPerYear(plan.interval);
}

/**
 * Returns the start. An earlier day moves to the last invoiced end. A moment of today is used as it
 * is, even before such an end.
 */
function startOf(
  state: LagoState,
  { external_id, external_customer_id }: Subscription,
  requestedAt: number,
  at: number,
): number {
  if (isToday(state, external_customer_id, requestedAt, at)) return requestedAt;
  const ends = state.subscriptions
    .filter((one) => one.external_id === external_id && one.on_termination_invoice === 'generate')
    .map(({ terminated_at }) => Date.parse(terminated_at ?? '') || 0);
  return Math.max(requestedAt, ...ends);
}

function isToday(state: LagoState, customer: string, requestedAt: number, at: number): boolean {
  const zone = zoneOf(state, customer);
  return dayOf(requestedAt, zone) === dayOf(at, zone);
}

function add(
  state: LagoState,
  fields: Omit<
    Subscription,
    | 'lago_id'
    | 'status'
    | 'started_at'
    | 'terminated_at'
    | 'on_termination_invoice'
    | 'billedOn'
    | 'thresholds'
  >,
): Subscription {
  const subscription: Subscription = {
    lago_id: state.nextId(),
    ...fields,
    status: 'pending',
    started_at: null,
    terminated_at: null,
    on_termination_invoice: 'generate',
    billedOn: undefined,
    thresholds: 0,
  };
  state.subscriptions.push(subscription);
  return subscription;
}

/**
 * Ends a subscription at once: later usage is not billed. `status=pending` only cancels a waiting
 * change.
 */
export function terminateSubscription(
  state: LagoState,
  externalId: string,
  { query, at }: FakeRequest,
): FakeResponse {
  const subscription = requestedFor(state, externalId, query);
  if (subscription === undefined) return notFound('subscription');
  if (subscription.status === 'pending') {
    const current = activeSubscription(state, externalId);
    subscription.status = 'canceled';
    if (current !== undefined) notifySubscription(state, 'subscription.updated', current, at);
  } else {
    const requested = query.get('on_termination_invoice') ?? 'generate';
    if (requested !== 'generate' && requested !== 'skip') {
      return invalid({ on_termination_invoice: ['value_is_invalid'] });
    }
    terminate(state, subscription, at, requested);
  }
  return ok({ subscription: show(state, subscription, at) });
}
