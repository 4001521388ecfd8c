import { periodAt } from './billing-period.ts';
import { type LagoState, nextSubscription, type Subscription } from './state.ts';

/**
 * Returns a subscription as Lago shows it (lago-api app/serializers/v1/subscription_serializer.rb).
 */
export function showSubscription(state: LagoState, subscription: Subscription, at: number) {
  const { previous_id, billedOn: _billedOn, ...shown } = subscription;
  const plan = state.plans.get(subscription.plan_code);
  const next = nextSubscription(state, subscription);
  const period = subscription.status === 'active' ? periodAt(state, subscription, at) : undefined;
  const started = Date.parse(subscription.started_at ?? '');
  return {
    ...shown,
    lago_customer_id: state.customers.get(subscription.external_customer_id)?.lago_id ?? null,
    plan_amount_cents: plan?.amount_cents ?? null,
    plan_amount_currency: plan?.amount_currency ?? null,
    terminated_at: subscription.terminated_at?.replace(/\.\d{3}Z$/, 'Z') ?? null,
    previous_plan_code:
      state.subscriptions.find(({ lago_id }) => lago_id === previous_id)?.plan_code ?? null,
    next_plan_code: next?.plan_code ?? null,
    downgrade_plan_date:
      next?.status === 'pending' && period !== undefined
        ? new Date(period.to + 1).toISOString().slice(0, 10)
        : null,
    current_billing_period_started_at:
      period === undefined ? null : new Date(Math.max(period.from, started)).toISOString(),
    current_billing_period_ending_at:
      period === undefined ? null : new Date(period.to).toISOString(),
  };
}
