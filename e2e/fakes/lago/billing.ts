import { dayOf } from './calendar.ts';
import { feesOf } from './fees.ts';
import { dueCents, progressiveCentsOf } from './invoice-view.ts';
import { notify } from './notices.ts';
import {
  type Fee,
  type Invoice,
  type InvoiceScope,
  type LagoState,
  type Subscription,
  zoneOf,
} from './state.ts';

/** Makes an invoice of the scopes: final at once without a grace period, a draft with one. */
export function invoice(
  state: LagoState,
  customer: string,
  currency: string,
  reason: Invoice['reason'],
  scopes: readonly InvoiceScope[],
  at: number,
): Invoice {
  const own = state.customers.get(customer)?.invoice_grace_period ?? state.rules.graceDays;
  const grace = reason === 'progressive_billing' ? 0 : own;
  const made = add(state, customer, currency, reason, at, grace, scopes);
  refresh(state, made);
  if (grace === 0) setFinal(state, made, at);
  else notify(state, 'invoice.drafted', made, at);
  return made;
}

/** Makes an invoice outside all periods. It is final at once, whatever the grace period. */
export function invoiceFees(
  state: LagoState,
  customer: string,
  currency: string,
  reason: 'in_advance_charge' | 'one_off',
  fees: readonly Fee[],
  at: number,
): Invoice {
  const made = add(state, customer, currency, reason, at, 0);
  made.fees = fees;
  setFinal(state, made, at);
  return made;
}

function add(
  state: LagoState,
  customer: string,
  currency: string,
  reason: Invoice['reason'],
  at: number,
  grace: number,
  scopes: readonly InvoiceScope[] = [],
): Invoice {
  const made: Invoice = {
    lago_id: state.nextId(),
    number: `LAG-${String(state.invoices.length + 1).padStart(4, '0')}`,
    customer,
    currency,
    type: reason === 'one_off' || reason === 'progressive_billing' ? reason : 'subscription',
    reason,
    scopes,
    createdAt: at,
    status: 'draft',
    issuingDay: dayOf(at, zoneOf(state, customer)) + grace,
    finalizedAt: undefined,
    voidedAt: undefined,
    payment_status: 'pending',
    payment_overdue: false,
    fees: [],
    progressiveCents: 0,
    prepaidCents: 0,
  };
  state.invoices.push(made);
  return made;
}

/** Computes a draft again, with the events that arrived since. */
export function refresh(state: LagoState, draft: Invoice): void {
  draft.fees = draft.scopes.flatMap((one) => feesOf(state, one, draft.reason));
  draft.progressiveCents = progressiveCentsOf(state, draft);
}

/** Makes a draft final: no event changes it any more. */
export function finalize(state: LagoState, draft: Invoice, at: number): void {
  refresh(state, draft);
  setFinal(state, draft, at);
}

function setFinal(state: LagoState, made: Invoice, at: number): void {
  made.status = 'finalized';
  made.prepaidCents = payFromWallet(state, made);
  made.finalizedAt = at;
  notify(state, 'invoice.created', made, at);
}

/**
 * Pays as much as possible from prepaid credit (lago-api
 * app/services/credits/applied_prepaid_credits_service.rb).
 */
function payFromWallet(state: LagoState, made: Invoice): number {
  const balance = state.wallets.get(made.customer) ?? state.rules.walletCents;
  const paid = Math.min(balance, dueCents(state, made));
  state.wallets.set(made.customer, balance - paid);
  return paid;
}

export function currencyOf(state: LagoState, { plan_code }: Subscription): string {
  return state.plans.get(plan_code)?.amount_currency ?? '';
}
