import type { FakeResponse } from '../fake-server.ts';
import { whole } from '../exact.ts';
import { invalid, missing, ok } from './answers.ts';
import { type Form, items, text, texts } from './form.ts';
import { invoiceOf } from './invoice-routes.ts';
import { showCreditNote, showInvoice, totalCents } from './invoice-view.ts';
import { page, PAGING, unknownParameter } from './lists.ts';
import { metadataProblem } from './metadata.ts';
import { type CreditNote, nextId, type StripeState } from './state.ts';

/** Where the part of a credit note goes that was paid already. */
const PAID_BACK = ['credit_amount', 'refund_amount', 'out_of_band_amount'];

/** Credits a final invoice, never more than it is. */
export function createCreditNote(state: StripeState, form: Form, at: number): FakeResponse {
  const known = ['invoice', 'amount', 'lines', 'reason', 'memo', 'metadata', ...PAID_BACK];
  const unknown = unknownParameter(form, known);
  if (unknown !== undefined) return unknown;
  const id = text(form, 'invoice') ?? '';
  const invoice = invoiceOf(state, id);
  if (invoice === undefined) return missing('invoice', id);
  if (invoice.status !== 'open' && invoice.status !== 'paid') {
    return invalid('You can only create credit notes for finalized invoices.');
  }
  let lines = 0;
  for (const line of items(form, 'lines')) {
    const of = text(line, 'invoice_line_item');
    const own = invoice.lines.find((one) => one.id === of);
    if (own === undefined) return missing('invoice line item', of ?? '');
    const amount = Number(text(line, 'amount'));
    if (!(amount > 0 && amount <= whole(own.cents))) {
      return invalid('The credit note line amount must be within the amount of the invoice line.');
    }
    lines += amount;
  }
  const amount = Number(text(form, 'amount') ?? lines);
  const metadata = texts(form, 'metadata');
  const problem = metadataProblem(metadata);
  if (problem !== undefined) return problem;
  const before = state.creditNotes.filter((note) => note.invoice === id);
  const credited = before.reduce((total, note) => total + note.amount, 0);
  if (!(amount > 0 && amount + credited <= totalCents(invoice))) {
    return invalid('The credit note amount must be within the amount of the invoice.');
  }
  const due = showInvoice(state, invoice).amount_remaining;
  const toBalance = Math.max(0, amount - due);
  const said = PAID_BACK.reduce((sum, field) => sum + Number(text(form, field) ?? 0), 0);
  if (said !== toBalance) {
    return invalid(
      `The sum of credit amount, refund amount and out of band amount (${said}) must equal the post payment amount (${toBalance}).`,
    );
  }
  const note: CreditNote = {
    id: nextId(state, 'cn'),
    invoice: id,
    amount,
    created: Math.floor(at / 1000),
    reason: text(form, 'reason') ?? null,
    memo: text(form, 'memo') ?? null,
    metadata,
    toBalance,
  };
  state.creditNotes.push(note);
  return ok(showCreditNote(state, note));
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
