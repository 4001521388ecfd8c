import type { FakeResponse } from '../fake-server.ts';
import { rounded } from '../exact.ts';
import { invalid, missing, ok } from './answers.ts';
import { type Form, items, text, texts } from './form.ts';
import { invoiceOf } from './invoice-routes.ts';
import { creditAmounts, totalCents } from './amounts.ts';
import { showCreditNote, showInvoice } from './invoice-view.ts';
import { page, PAGING, unknownParameter } from './lists.ts';
import { metadataProblem } from './metadata.ts';
import { type CreditNote, nextId, type StripeState } from './state.ts';

/** The destinations of the paid part of a credit note. */
const PAID_BACK = ['credit_amount', 'refund_amount', 'out_of_band_amount'];

const PREVIEW = ['invoice', 'amount', 'lines', 'reason', 'memo', 'metadata', ...PAID_BACK];

/** Credits a final invoice, at most its amount. */
export function createCreditNote(state: StripeState, form: Form, at: number): FakeResponse {
  const note = read(state, form, at);
  if ('status' in note) return note;
  const stated = paidBack(form);
  if (stated !== note.toBalance) return unevenProblem(stated, note.toBalance);
  state.creditNotes.push(note);
  // A paid amount is owed to the customer.
  const customer = invoiceOf(state, note.invoice)?.customer ?? '';
  state.balances.set(customer, (state.balances.get(customer) ?? 0) - note.toBalance);
  return ok(showCreditNote(state, note));
}

/**
 * Returns the amounts of a possible credit note; the destination of the paid part may be missing.
 */
export function previewCreditNote(state: StripeState, form: Form, at: number): FakeResponse {
  const note = read(state, form, at);
  if ('status' in note) return note;
  const stated = paidBack(form);
  if (stated !== 0 && stated !== note.toBalance) return unevenProblem(stated, note.toBalance);
  return ok(showCreditNote(state, note));
}

function paidBack(form: Form): number {
  return PAID_BACK.reduce((sum, field) => sum + Number(text(form, field) ?? 0), 0);
}

function unevenProblem(stated: number, toBalance: number): FakeResponse {
  return invalid(
    `The sum of credit amount, refund amount and out of band amount (${stated}) must equal the post payment amount (${toBalance}).`,
  );
}

function read(state: StripeState, form: Form, at: number): CreditNote | FakeResponse {
  const unknown = unknownParameter(form, PREVIEW);
  if (unknown !== undefined) return unknown;
  const id = text(form, 'invoice') ?? '';
  const invoice = invoiceOf(state, id);
  if (invoice === undefined) return missing('invoice', id);
  if (invoice.status !== 'open' && invoice.status !== 'paid') {
    return invalid('You can only create credit notes for finalized invoices.');
  }
  const before = state.creditNotes.filter((note) => note.invoice === id);
  const lines: CreditNote['lines'][number][] = [];
  for (const item of items(form, 'lines')) {
    const of = text(item, 'invoice_line_item');
    const own = invoice.lines.find((one) => one.id === of);
    if (own === undefined) return missing('invoice line item', of ?? '');
    const requested = Number(text(item, 'amount'));
    const amounts = creditAmounts(state, invoice, own, requested);
    const credited = before
      .flatMap((note) => note.lines)
      .reduce((sum, one) => sum + (one.line === own.id ? one.gross : 0), 0);
    if (!(requested > 0 && amounts.gross + credited <= rounded(own.cents))) {
      return invalid('The credit note line amount must be within the amount of the invoice line.');
    }
    lines.push({ ...amounts, line: own.id });
  }
  const sumOf = (field: 'gross' | 'discount' | 'total'): number =>
    lines.reduce((sum, line) => sum + line[field], 0);
  const amount = Number(text(form, 'amount') ?? sumOf('total'));
  const metadata = texts(form, 'metadata');
  const problem = metadataProblem(metadata);
  if (problem !== undefined) return problem;
  const credited = before.reduce((total, note) => total + note.amount, 0);
  if (!(amount > 0 && amount + credited <= totalCents(state, invoice))) {
    return invalid('The credit note amount must be within the amount of the invoice.');
  }
  return {
    id: nextId(state, 'cn'),
    invoice: id,
    amount,
    subtotal: sumOf('gross'),
    discount: sumOf('discount'),
    lines,
    created: Math.floor(at / 1000),
    reason: text(form, 'reason') ?? null,
    memo: text(form, 'memo') ?? null,
    metadata,
    toBalance: Math.max(0, amount - showInvoice(state, invoice).amount_remaining),
  };
}

export function listCreditNotes(state: StripeState, query: Form): FakeResponse {
  const unknown = unknownParameter(query, ['invoice', 'customer', 'created', ...PAGING]);
  if (unknown !== undefined) return unknown;
  const invoice = text(query, 'invoice');
  const found = state.creditNotes.filter(
    (note) => invoice === undefined || note.invoice === invoice,
  );
  return page('/v1/credit_notes', query, found, (note) => showCreditNote(state, note));
}
