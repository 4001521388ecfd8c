import { currencyOf, invoice } from './billing.ts';
import { periodAt } from './billing-period.ts';
import { activeSubscription, type LagoState, type StoredEvent } from './state.ts';
import { chargesOf, startOf } from './usage.ts';

/**
 * Makes an invoice of the usage so far each time that a subscription's lifetime usage reaches a
 * threshold of its plan (lago-api app/services/invoices/progressive_billing_service.rb). It has no
 * grace, and names the complete period.
 */
export function billThreshold(state: LagoState, event: StoredEvent): void {
  const subscription = activeSubscription(state, event.external_subscription_id);
  if (subscription === undefined) return;
  const plan = state.plans.get(subscription.plan_code);
  const [threshold] = plan?.usage_thresholds ?? [];
  if (threshold === undefined) return;
  const used = chargesOf(state, subscription).reduce((sum, one) => sum + one.amountCents, 0);
  const passed = Math.floor(used / threshold.amount_cents);
  if (passed <= subscription.thresholds) return;
  subscription.thresholds = passed;
  const at = Date.parse(event.created_at);
  const period = periodAt(state, subscription, at);
  const scope = {
    subscription: subscription.lago_id,
    from: Math.max(period.from, startOf(subscription)),
    to: period.to,
  };
  const { external_customer_id: customer } = subscription;
  invoice(state, customer, currencyOf(state, subscription), 'progressive_billing', [scope], at);
}
