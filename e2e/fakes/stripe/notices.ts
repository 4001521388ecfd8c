import { showInvoice } from './invoice-view.ts';
import { type Invoice, nextId, type StripeState, type Subscription } from './state.ts';
import { showSubscription } from './subscription-view.ts';

/** Reports an invoice by webhook in its current state. */
export function notify(state: StripeState, type: string, invoice: Invoice, at: number): void {
  state.notices.push({
    id: nextId(state, 'evt'),
    type,
    created: at,
    object: showInvoice(state, invoice),
  });
}

export function notifySubscription(
  state: StripeState,
  type: string,
  subscription: Subscription,
  at: number,
): void {
  const object = showSubscription(state, subscription);
  state.notices.push({ id: nextId(state, 'evt'), type, created: at, object });
}
