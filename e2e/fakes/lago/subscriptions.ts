import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { invalid, notFound, ok, page, text } from './answers.ts';
import { addCustomer } from './customers.ts';
import { activeSubscription, type LagoState, type Subscription } from './state.ts';

export function listSubscriptions(
  state: LagoState,
  { query }: FakeRequest,
  customer: string | null = query.get('external_customer_id'),
): FakeResponse {
  const asked = query.getAll('status[]');
  const statuses = new Set(asked.length === 0 ? ['active'] : asked);
  const externalId = query.get('external_id');
  const plan = query.get('plan_code');
  const found = state.subscriptions.filter(
    (one) =>
      statuses.has(one.status) &&
      (customer === null || one.external_customer_id === customer) &&
      (externalId === null || one.external_id === externalId) &&
      (plan === null || one.plan_code === plan),
  );
  return page('subscriptions', found, query);
}

export function showSubscription(state: LagoState, externalId: string): FakeResponse {
  const subscription = activeSubscription(state, externalId);
  return subscription === undefined ? notFound('subscription') : ok({ subscription });
}

/** The same external id for the same customer is the same subscription; another plan changes its plan. */
export function createSubscription(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const customer = text(input['external_customer_id']);
  const planCode = text(input['plan_code']);
  const externalId = text(input['external_id']);
  if (customer === undefined) return invalid({ external_customer_id: ['value_is_mandatory'] });
  if (planCode === undefined || !state.plans.has(planCode)) return notFound('plan');
  if (externalId === undefined) return invalid({ external_id: ['value_is_mandatory'] });
  const existing = activeSubscription(state, externalId);
  if (existing !== undefined && existing.external_customer_id !== customer) {
    return invalid({ external_id: ['value_already_exist'] });
  }
  if (existing !== undefined) {
    existing.plan_code = planCode;
    return ok({ subscription: existing });
  }
  const askedAt = Date.parse(text(input['subscription_at']) ?? new Date(at).toISOString());
  if (!Number.isFinite(askedAt)) return invalid({ subscription_at: ['invalid_date'] });
  if (!state.customers.has(customer)) addCustomer(state, customer, at);
  const ended = state.subscriptions
    .filter(({ external_id }) => external_id === externalId)
    .map(({ terminated_at }) => Date.parse(terminated_at ?? '') || 0);
  const subscription: Subscription = {
    lago_id: state.nextId(),
    external_id: externalId,
    external_customer_id: customer,
    plan_code: planCode,
    status: askedAt > at ? 'pending' : 'active',
    subscription_at: new Date(askedAt).toISOString(),
    started_at: new Date(Math.max(askedAt, ...ended)).toISOString(),
    created_at: new Date(at).toISOString(),
    terminated_at: null,
  };
  state.subscriptions.push(subscription);
  return ok({ subscription });
}

/** Ends it at once: later usage is not billed. */
export function terminateSubscription(
  state: LagoState,
  externalId: string,
  at: number,
): FakeResponse {
  const subscription = activeSubscription(state, externalId);
  if (subscription === undefined) return notFound('subscription');
  subscription.status = 'terminated';
  subscription.terminated_at = new Date(at).toISOString();
  return ok({ subscription });
}
