import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { forbidden, invalid, isObject, notAllowed, notFound, ok, page, text } from './answers.ts';
import { showInvoice } from './invoice-view.ts';
import type { CreditNote, LagoState } from './state.ts';

/** Credits fees of a final invoice, never more than they are. */
export function createCreditNote(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const invoice = state.invoices.find(({ lago_id }) => lago_id === input['invoice_id']);
  if (invoice === undefined) return notFound('invoice');
  if (invoice.status !== 'finalized') return notAllowed('invalid_type_or_status');
  if (!state.rules.isPremium) return forbidden('feature_unavailable');
  const items = Array.isArray(input['items']) ? (input['items'] as unknown[]).filter(isObject) : [];
  const credited = items.map((item) => ({
    fee: String(item['fee_id']),
    cents: Number(item['amount_cents']),
  }));
  if (credited.length === 0) return invalid({ items: ['value_is_mandatory'] });
  for (const { fee, cents } of credited) {
    const own = showInvoice(state, invoice).fees.find(({ lago_id }) => lago_id === fee);
    if (own === undefined) return notFound('fee');
    if (!(cents <= own.amount_cents - creditedSoFar(state, fee))) {
      return invalid({ amount_cents: ['higher_than_remaining_fee_amount'] });
    }
  }
  const sum = credited.reduce((total, { cents }) => total + cents, 0);
  const said = ['credit', 'refund', 'offset'].reduce(
    (total, kind) => total + Number(input[`${kind}_amount_cents`] ?? 0),
    0,
  );
  if (said !== sum) return invalid({ base: ['does_not_match_item_amounts'] });
  const note: CreditNote = {
    lago_id: state.nextId(),
    invoice: invoice.lago_id,
    reason: text(input['reason']) ?? 'other',
    description: text(input['description']),
    cents: sum,
    items: credited,
    createdAt: at,
  };
  state.creditNotes.push(note);
  return ok({ credit_note: showCreditNote(state, note) });
}

export function listCreditNotes(state: LagoState, { query }: FakeRequest): FakeResponse {
  const customer = query.get('external_customer_id');
  const found = state.creditNotes.filter(
    ({ invoice: id }) =>
      customer === null ||
      state.invoices.some((one) => one.lago_id === id && one.customer === customer),
  );
  return page(
    'credit_notes',
    found.toReversed().map((note) => showCreditNote(state, note)),
    query,
  );
}

function showCreditNote(state: LagoState, note: CreditNote) {
  return {
    lago_id: note.lago_id,
    lago_invoice_id: note.invoice,
    reason: note.reason,
    description: note.description ?? null,
    credit_amount_cents: note.cents,
    total_amount_cents: note.cents,
    currency: state.invoices.find(({ lago_id }) => lago_id === note.invoice)?.currency,
    created_at: new Date(note.createdAt).toISOString(),
    items: note.items.map(({ fee, cents }) => ({ lago_fee_id: fee, amount_cents: cents })),
  };
}

function creditedSoFar(state: LagoState, fee: string): number {
  const items = state.creditNotes.flatMap((note) => note.items);
  return items.reduce((total, item) => total + (item.fee === fee ? item.cents : 0), 0);
}
