import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { type Exact, exact, parseExact, times } from '../exact.ts';
import { invalid, isObject, notAllowed, notFound, ok, page, text } from './answers.ts';
import { TAX_CODE } from './amounts.ts';
import { finalize, invoiceFees, refresh } from './billing.ts';
import { showFee, showInvoice, totalCents } from './invoice-view.ts';
import { notify } from './notices.ts';
import type { Fee, Invoice, LagoState } from './state.ts';

const DAY_MS = 86_400_000;

export function listInvoices(state: LagoState, { query }: FakeRequest): FakeResponse {
  const customer = query.get('external_customer_id');
  const subscription = query.get('external_subscription_id');
  const status = [...query.getAll('status'), ...query.getAll('status[]')];
  const overdue = query.get('payment_overdue');
  const payment = query.get('payment_status');
  const type = query.get('invoice_type');
  const issuedFrom = Date.parse(query.get('issuing_date_from') ?? '') / DAY_MS;
  const found = state.invoices.filter(
    (invoice) =>
      (type === null || invoice.type === type) &&
      !(invoice.issuingDay < issuedFrom) &&
      (overdue === null || String(invoice.payment_overdue) === overdue) &&
      (payment === null || invoice.payment_status === payment) &&
      (customer === null || invoice.customer === customer) &&
      (status.length === 0 || status.includes(invoice.status)) &&
      (subscription === null || isOf(state, invoice, subscription)),
  );
  return page(
    'invoices',
    found.toReversed().map((one) => listed(showInvoice(state, one))),
    query,
  );
}

/** Returns an invoice's entry in a list, which has neither lines nor periods. */
function listed({
  fees: _fees,
  billing_periods: _periods,
  subscriptions: _subscriptions,
  ...invoice
}: ReturnType<typeof showInvoice>) {
  return invoice;
}

function isOf(state: LagoState, { fees }: Invoice, externalId: string): boolean {
  const own = state.subscriptions.filter(({ external_id }) => external_id === externalId);
  const ids = new Set(own.map(({ lago_id }) => lago_id));
  return fees.some(({ subscription }) => subscription !== null && ids.has(subscription));
}

/** Handles `GET /invoices/:id` and the actions on an invoice. */
export function actOnInvoice(
  state: LagoState,
  id: string,
  action: 'show' | 'refresh' | 'finalize' | 'void',
  at: number,
): FakeResponse {
  const invoice = state.invoices.find(({ lago_id }) => lago_id === id);
  if (invoice === undefined) return notFound('invoice');
  if (action === 'refresh' && invoice.status === 'draft') refresh(state, invoice);
  if (action === 'finalize') {
    if (invoice.status !== 'draft') return notFound('invoice');
    finalize(state, invoice, at);
  }
  if (action === 'void') {
    if (invoice.status !== 'finalized') return notAllowed('not_voidable');
    invoice.status = 'voided';
    invoice.voidedAt = at;
    invoice.payment_overdue = false;
    notify(state, 'invoice.voided', invoice, at);
  }
  return ok({ invoice: showInvoice(state, invoice) });
}

/** Records the result of an invoice's payment. */
export function updateInvoice(
  state: LagoState,
  id: string,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const invoice = state.invoices.find(({ lago_id }) => lago_id === id);
  if (invoice === undefined) return notFound('invoice');
  const status = input['payment_status'];
  if (status !== 'pending' && status !== 'succeeded' && status !== 'failed') {
    return invalid({ payment_status: ['value_is_invalid'] });
  }
  if (invoice.status === 'draft') return notAllowed('payment_status_update_on_draft_invoice');
  const isNews = invoice.payment_status !== status;
  invoice.payment_status = status;
  if (status === 'succeeded') invoice.payment_overdue = false;
  if (isNews) notify(state, 'invoice.payment_status_updated', invoice, at);
  return ok({ invoice: showInvoice(state, invoice) });
}

export function listFees(state: LagoState, { query }: FakeRequest): FakeResponse {
  const customer = query.get('external_customer_id');
  const subscription = query.get('external_subscription_id');
  const metric = query.get('billable_metric_code');
  const shown = state.invoices
    .flatMap((invoice) => invoice.fees.map((fee) => showFee(state, invoice, fee)))
    .filter(
      (fee) =>
        (customer === null || fee.external_customer_id === customer) &&
        (subscription === null || fee.external_subscription_id === subscription) &&
        (metric === null || fee.item.code === metric),
    );
  return page('fees', shown, query);
}

/** Returns the invoiced periods, newest first, each with the charges of its invoice. */
export function pastUsage(
  state: LagoState,
  customer: string,
  query: URLSearchParams,
): FakeResponse {
  if (!state.customers.has(customer)) return notFound('customer');
  const wanted = query.get('external_subscription_id');
  const own = new Set(
    state.subscriptions
      .filter((one) => one.external_customer_id === customer && one.external_id === wanted)
      .map(({ lago_id }) => lago_id),
  );
  const periods = state.invoices.toReversed().flatMap((invoice) =>
    invoice.scopes
      .filter(({ subscription }) => own.has(subscription))
      .map(({ subscription, from, to }) => ({
        from_datetime: new Date(from).toISOString(),
        to_datetime: new Date(to).toISOString(),
        issuing_date: showInvoice(state, invoice).issuing_date,
        lago_invoice_id: invoice.lago_id,
        currency: invoice.currency,
        amount_cents: totalCents(invoice),
        charges_usage: invoice.fees
          .filter((fee) => fee.type === 'charge' && fee.subscription === subscription)
          .map((fee) => usageOf(state, invoice, fee)),
      })),
  );
  return page('usage_periods', periods, query);
}

function usageOf(state: LagoState, invoice: Invoice, fee: Fee) {
  const { units, events_count, amount_cents, amount_currency, lago_charge_id, item } = showFee(
    state,
    invoice,
    fee,
  );
  const metric = state.metrics.get(item.code);
  return {
    units,
    events_count,
    amount_cents,
    amount_currency,
    charge: { lago_id: lago_charge_id },
    billable_metric: { lago_id: metric?.lago_id, name: metric?.name, code: item.code },
    filters: [],
  };
}

export function createAddOn(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const code = text(input['code']);
  if (code === undefined) return invalid({ code: ['value_is_mandatory'] });
  if (!(Number(input['amount_cents']) > 0)) return invalid({ amount_cents: ['value_is_invalid'] });
  if (state.addOns.has(code)) return invalid({ code: ['value_already_exist'] });
  const add_on = {
    lago_id: state.nextId(),
    name: text(input['name']) ?? code,
    code,
    amount_cents: Number(input['amount_cents']),
    amount_currency: String(input['amount_currency']),
  };
  state.addOns.set(code, add_on);
  return ok({ add_on });
}

export function showAddOn(state: LagoState, code: string): FakeResponse {
  const add_on = state.addOns.get(code);
  return add_on === undefined ? notFound('add_on') : ok({ add_on });
}

/** Creates a one-off invoice, of add-ons alone. */
export function createInvoice(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const customer = text(input['external_customer_id']) ?? '';
  if (!state.customers.has(customer)) return notFound('customer');
  const items = Array.isArray(input['fees']) ? (input['fees'] as unknown[]).filter(isObject) : [];
  const fees: Fee[] = [];
  for (const item of items) {
    const addOn = state.addOns.get(text(item['add_on_code']) ?? '');
    if (addOn === undefined) return notFound('add_on');
    const price = decimal(item['unit_amount_cents']) ?? exact(String(addOn.amount_cents));
    const units = decimal(item['units']) ?? exact('1');
    if (price.digits < 0n || units.digits < 0n) return invalid({ fees: ['value_is_invalid'] });
    const taxCodes = Array.isArray(item['tax_codes']) ? item['tax_codes'].map(String) : undefined;
    const known = ['customer', 'charge'].includes(state.rules.tax?.of ?? '') ? [TAX_CODE] : [];
    const isKnown = taxCodes?.every((code) => known.includes(code));
    if (isKnown === false) return notFound('tax');
    fees.push({
      lago_id: state.nextId(),
      type: 'add_on',
      code: addOn.code,
      charge: null,
      filters: null,
      subscription: null,
      units,
      cents: times(units, price),
      each: { ...price, scale: price.scale + 2 },
      displayName: text(item['invoice_display_name']),
      description: text(item['description']),
      taxCodes,
      events: [],
      from: null,
      to: null,
    });
  }
  if (fees.length === 0) return invalid({ fees: ['value_is_mandatory'] });
  const currency = text(input['currency']) ?? state.customers.get(customer)?.currency ?? 'USD';
  const invoice = invoiceFees(state, customer, currency, 'one_off', fees, at);
  return ok({ invoice: showInvoice(state, invoice) });
}

function decimal(value: unknown): Exact | undefined {
  return parseExact(typeof value === 'number' ? JSON.stringify(value) : (text(value) ?? ''));
}
