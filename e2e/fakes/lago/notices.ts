import { showInvoice } from './invoice-view.ts';
import type { Invoice, LagoState, Subscription } from './state.ts';
import { showSubscription } from './subscription-view.ts';

/** Reports an invoice by webhook in its current state. */
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

/**
 * Sends the hourly report of validation errors (lago-api
 * app/services/events/post_validation_service.rb).
 */
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
