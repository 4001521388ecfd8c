import { currencyOf, invoiceFees } from './billing.ts';
import { chargeFee, filterOf, unitsOf } from './fees.ts';
import type { LagoState, StoredEvent } from './state.ts';

/**
 * Invoices an event of a charge paid in advance as it arrives, and never again (lago-api
 * app/services/events/pay_in_advance_service.rb).
 */
export function billAtIngest(state: LagoState, event: StoredEvent): void {
  if (unitsOf(state, event) === undefined) return;
  const subscription = state.subscriptions.find(
    ({ external_id, status, started_at }) =>
      external_id === event.external_subscription_id &&
      status === 'active' &&
      Date.parse(started_at ?? '') <= event.at,
  );
  if (subscription === undefined) return;
  const charges = state.plans.get(subscription.plan_code)?.charges ?? [];
  for (const charge of charges) {
    if (!charge.pay_in_advance || charge.billable_metric_code !== event.code) continue;
    const time = { from: event.at, to: event.at };
    const fee = chargeFee(state, subscription, charge, filterOf(charge, event), [event], time);
    const { external_customer_id: customer } = subscription;
    const at = Date.parse(event.created_at);
    const currency = currencyOf(state, subscription);
    invoiceFees(state, customer, currency, 'in_advance_charge', [fee], at);
  }
}
