import { currencyOf, invoice } from './billing.ts';
import { scopeOfEnd } from './billing-period.ts';
import { notifySubscription } from './notices.ts';
import { type InvoiceScope, type LagoState, nextSubscription, type Subscription } from './state.ts';

/** Ends a subscription, cancels its waiting change, and bills it at once by default. */
export function terminate(
  state: LagoState,
  subscription: Subscription,
  at: number,
  billing: Subscription['on_termination_invoice'] = 'generate',
): void {
  const waiting = nextSubscription(state, subscription);
  if (waiting !== undefined) waiting.status = 'canceled';
  end(state, subscription, at);
  subscription.on_termination_invoice = billing;
  if (billing === 'generate') billEnd(state, subscription, at);
}

/**
 * Replaces one plan with another, and invoices the old one in the same moment (lago-api
 * app/services/subscriptions/activate_service.rb).
 */
export function handOver(
  state: LagoState,
  before: Subscription,
  next: Subscription,
  at: number,
  scope?: InvoiceScope,
): void {
  end(state, before, at);
  start(state, next, at);
  billEnd(state, before, at, scope);
}

/** Makes a subscription active from a moment on. */
export function start(state: LagoState, subscription: Subscription, from: number): void {
  subscription.status = 'active';
  subscription.started_at = new Date(from).toISOString();
  notifySubscription(state, 'subscription.started', subscription, from);
}

function end(state: LagoState, subscription: Subscription, at: number): void {
  subscription.status = 'terminated';
  subscription.terminated_at = new Date(at).toISOString();
  notifySubscription(state, 'subscription.terminated', subscription, at);
}

function billEnd(
  state: LagoState,
  subscription: Subscription,
  at: number,
  scope: InvoiceScope = scopeOfEnd(state, subscription, at),
): void {
  const scopes = [scope];
  const { external_customer_id: customer } = subscription;
  invoice(state, customer, currencyOf(state, subscription), 'subscription_terminating', scopes, at);
}
