import { showInvoice } from './invoice-view.ts';
import type { Invoice, LagoState, Subscription } from './state.ts';
import { showSubscription } from './subscription-view.ts';

/** Tells of an invoice by webhook, as it is at that moment. */
export function notify(state: LagoState, type: string, invoice: Invoice, at: number): void {
  add(state, type, 'invoice', showInvoice(state, invoice), at);
}

export function notifySubscription(
  state: LagoState,
  type: string,
  subscription: Subscription,
  at: number,
): void {
  add(state, type, 'subscription', showSubscription(state, subscription, at), at);
}

/** The hourly report of what validation found (lago-api app/services/events/post_validation_service.rb). */
export function notifyEventErrors(
  state: LagoState,
  errors: Readonly<Record<string, readonly string[]>>,
  at: number,
): void {
  add(state, 'events.errors', 'events_errors', errors, at);
}

function add(state: LagoState, type: string, objectType: string, about: unknown, at: number): void {
  state.notices.push({ id: state.nextId(), type, objectType, about, at });
}
