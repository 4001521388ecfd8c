import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { type Exact, exact, minus, plus, textOf, rounded, ZERO } from '../exact.ts';
import { forbidden, invalid, isObject, notAllowed, notFound, ok, page, text } from './answers.ts';
import { feeAmounts } from './amounts.ts';
import type { CreditNote, Invoice, LagoState } from './state.ts';

type Input = Readonly<Record<string, unknown>>;

interface Credited {
  readonly invoice: Invoice;
  readonly items: CreditNote['items'];
  /** Not rounded. */
  readonly coupons: Exact;
  readonly taxes: Exact;
  /** With taxes and without the part that coupons covered. */
  readonly total: number;
}

/** Credits fees of a final invoice, at most their amount. */
export function createCreditNote(state: LagoState, input: Input, at: number): FakeResponse {
  const read = readItems(state, input);
  if ('status' in read) return read;
  const stated = ['credit', 'refund', 'offset'].reduce(
    (total, kind) => total + Number(input[`${kind}_amount_cents`] ?? 0),
    0,
  );
  if (stated !== read.total) return invalid({ base: ['does_not_match_item_amounts'] });
  const note: CreditNote = {
    lago_id: state.nextId(),
    invoice: read.invoice.lago_id,
    reason: text(input['reason']) ?? 'other',
    description: text(input['description']),
    cents: read.total,
    items: read.items,
    createdAt: at,
  };
  state.creditNotes.push(note);
  return ok({ credit_note: showCreditNote(state, note) });
}

/**
 * Returns the amounts of a possible credit note (lago-api
 * app/services/credit_notes/estimate_service.rb).
 */
export function estimateCreditNote(state: LagoState, input: Input): FakeResponse {
  const read = readItems(state, input);
  if ('status' in read) return read;
  const { invoice, items, coupons, taxes, total } = read;
  const sum = items.reduce((all, { cents }) => all + cents, 0);
  return ok({
    estimated_credit_note: {
      lago_invoice_id: invoice.lago_id,
      invoice_number: invoice.number,
      currency: invoice.currency,
      taxes_amount_cents: rounded(taxes),
      precise_taxes_amount_cents: textOf(taxes),
      sub_total_excluding_taxes_amount_cents: sum - rounded(coupons),
      max_creditable_amount_cents: total,
      max_refundable_amount_cents: invoice.payment_status === 'succeeded' ? total : 0,
      coupons_adjustment_amount_cents: rounded(coupons),
      precise_coupons_adjustment_amount_cents: textOf(coupons),
      items: items.map(({ fee, cents }) => ({ lago_fee_id: fee, amount_cents: cents })),
    },
  });
}

function readItems(state: LagoState, input: Input): Credited | FakeResponse {
  const invoice = state.invoices.find(({ lago_id }) => lago_id === input['invoice_id']);
  if (invoice === undefined) return notFound('invoice');
  if (invoice.status !== 'finalized') return notAllowed('invalid_type_or_status');
  if (!state.rules.isPremium) return forbidden('feature_unavailable');
  const given = Array.isArray(input['items']) ? (input['items'] as unknown[]).filter(isObject) : [];
  if (given.length === 0) return invalid({ items: ['value_is_mandatory'] });
  const items: CreditNote['items'][number][] = [];
  let [sum, coupons, taxes] = [ZERO, ZERO, ZERO];
  for (const item of given) {
    const [id, cents] = [String(item['fee_id']), Number(item['amount_cents'])];
    const fee = invoice.fees.find(({ lago_id }) => lago_id === id);
    if (fee === undefined) return notFound('fee');
    if (!(cents <= rounded(fee.cents) - creditedSoFar(state, id))) {
      return invalid({ amount_cents: ['higher_than_remaining_fee_amount'] });
    }
    const part = feeAmounts(state, invoice, fee, exact(String(cents)));
    sum = plus(sum, exact(String(cents)));
    coupons = plus(coupons, part.coupons);
    taxes = plus(taxes, part.taxes);
    items.push({ fee: id, cents });
  }
  const roundedCoupons = exact(String(rounded(coupons)));
  return {
    invoice,
    items,
    coupons,
    taxes,
    total: rounded(plus(minus(sum, roundedCoupons), taxes)),
  };
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
