import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { minus, sum, textOf } from '../exact.ts';
import { instant, ok, page, refused } from './answers.ts';
import { showApplied, showPurchases } from './balances.ts';
import { linesOf } from './lines.ts';
import type { Invoice, InvoiceLine, MetronomeState } from './state.ts';
import { drafts, regenerate } from './statements.ts';

const WINDOWS: Readonly<Record<string, number>> = { HOUR: 3_600_000, DAY: 86_400_000 };

export function listInvoices(
  state: MetronomeState,
  customer: string,
  { query, at }: FakeRequest,
): FakeResponse {
  const type = query.get('type');
  const usage = invoicesOf(state, customer, at)
    .filter((invoice) => isRequested(invoice, query))
    .map((invoice) => show(state, invoice));
  const payments = state.contracts
    .filter(({ customer_id }) => customer_id === customer)
    .flatMap((contract) => showPurchases(contract, creditTypeOf(state, contract.id), at));
  return page(
    [...payments, ...usage].filter((one) => type === null || type === one.type),
    query,
  );
}

export function showInvoice(
  state: MetronomeState,
  customer: string,
  id: string,
  at: number,
): FakeResponse {
  const found = invoicesOf(state, customer, at).find((invoice) => invoice.id === id);
  return found === undefined ? refused(404, 'Invoice not found') : ok(show(state, found));
}

/**
 * Returns the usage of each day or hour of an invoice by the current events, late ones included.
 * Usage that is here and not on the invoice is on no invoice.
 */
export function listBreakdowns(
  state: MetronomeState,
  customer: string,
  { query, at }: FakeRequest,
): FakeResponse {
  const from = instant(query.get('starting_on'));
  const to = instant(query.get('ending_before'));
  const step = WINDOWS[query.get('window_size')?.toUpperCase() ?? 'DAY'];
  if (from === undefined || to === undefined || step === undefined) {
    return refused(400, 'starting_on, ending_before and window_size are required');
  }
  const rows = invoicesOf(state, customer, at)
    .filter((invoice) => isRequested(invoice, query))
    .flatMap((invoice) => {
      const contract = state.contracts.find(({ id }) => id === invoice.contract_id);
      if (contract === undefined) return [];
      const shown: unknown[] = [];
      const last = Math.min(invoice.to, to);
      let start = Math.max(invoice.from, from);
      while (start < last) {
        const end = Math.min(start - (start % step) + step, last);
        const lines = linesOf(state, contract, start, end);
        shown.push({
          ...show(state, { ...invoice, lines }),
          breakdown_start_timestamp: new Date(start).toISOString(),
          breakdown_end_timestamp: new Date(end).toISOString(),
        });
        start = end;
      }
      return shown;
    });
  return page(rows, query);
}

export function voidInvoice(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const invoice = state.invoices.find(({ id }) => id === input['id']);
  if (invoice?.status !== 'FINALIZED') return refused(404, 'Invoice not found');
  invoice.status = 'VOID';
  return ok({ id: invoice.id });
}

export function regenerateInvoice(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const invoice = state.invoices.find(({ id }) => id === input['id']);
  if (invoice === undefined) return refused(404, 'Invoice not found');
  if (invoice.status !== 'VOID') return refused(400, 'Only voided invoices can be regenerated');
  return ok({ id: regenerate(state, invoice, at).id });
}

function invoicesOf(state: MetronomeState, customer: string, at: number): readonly Invoice[] {
  return [...state.invoices, ...drafts(state, at)].filter(
    ({ customer_id }) => customer_id === customer,
  );
}

function isRequested({ status, from, to }: Invoice, query: URLSearchParams): boolean {
  const wanted = query.get('status');
  const start = instant(query.get('starting_on')) ?? 0;
  const end = instant(query.get('ending_before')) ?? Infinity;
  return (wanted === null || wanted === status) && to > start && from < end;
}

/** Returns an invoice as Metronome shows it (its OpenAPI document, `Invoice`). */
function show(state: MetronomeState, invoice: Invoice) {
  const credit_type = creditTypeOf(state, invoice.contract_id);
  const subtotal = sum(invoice.lines.map((line) => line.total));
  const credited = sum(invoice.applied.map(({ amount }) => amount));
  return {
    id: invoice.id,
    type: 'USAGE',
    status: invoice.status,
    customer_id: invoice.customer_id,
    contract_id: invoice.contract_id,
    start_timestamp: new Date(invoice.from).toISOString(),
    end_timestamp: new Date(invoice.to).toISOString(),
    ...(invoice.status !== 'DRAFT' && { issued_at: new Date(invoice.finalAt).toISOString() }),
    credit_type,
    subtotal: number(subtotal),
    total: number(minus(subtotal, credited)),
    line_items: [
      ...invoice.lines.map((line) => showLine(line, credit_type)),
      ...invoice.applied.map((one) => showApplied(one, credit_type)),
    ],
  };
}

function creditTypeOf(state: MetronomeState, contractId: string) {
  const contract = state.contracts.find(({ id }) => id === contractId);
  const card = state.rateCards.find(({ id }) => id === contract?.rate_card_id);
  return card?.fiat_credit_type ?? { id: '', name: '' };
}

function showLine(
  { product_id, name, values, quantity, price, total }: InvoiceLine,
  credit_type: unknown,
) {
  return {
    type: 'usage',
    name,
    product_id,
    product_type: 'UsageProductListItem',
    pricing_group_values: values,
    quantity: number(quantity),
    unit_price: number(price),
    total: number(total),
    credit_type,
  };
}

/** Metronome's numbers are JSON numbers. */
function number(value: Parameters<typeof textOf>[0]): number {
  return Number(textOf(value));
}
