import type { FakeResponse } from '../fake-server.ts';
import { parseExact, times } from '../exact.ts';
import { invalid, missing, ok } from './answers.ts';
import { type Form, text, texts } from './form.ts';
import { addInvoiceItem, finalize, makeInvoice, usageLine } from './invoicing.ts';
import { showInvoice, showInvoiceItem, showLine } from './invoice-view.ts';
import { isCreatedWithin, page, PAGING, unknownParameter } from './lists.ts';
import { metadataProblem } from './metadata.ts';
import { notify } from './notices.ts';
import {
  liveItems,
  type Invoice,
  type InvoiceLine,
  nextId,
  type Price,
  type StripeState,
} from './state.ts';
import { showSubscription } from './subscription-view.ts';

/** https://docs.stripe.com/billing/invoices/subscription */
const MAX_PENDING_ITEMS = 250;

export function listInvoices(state: StripeState, query: Form): FakeResponse {
  const known = ['customer', 'subscription', 'status', 'created', 'collection_method', ...PAGING];
  const unknown = unknownParameter(query, known);
  if (unknown !== undefined) return unknown;
  const [customer, subscription, status] = ['customer', 'subscription', 'status'].map((name) =>
    text(query, name),
  );
  const since = Number(text(query, 'created', 'gte') ?? 0);
  const found = state.invoices.filter(
    (invoice) =>
      (customer === undefined || invoice.customer === customer) &&
      (subscription === undefined || invoice.subscription === subscription) &&
      (status === undefined || invoice.status === status) &&
      invoice.created >= since,
  );
  return page('/v1/invoices', query, found, (invoice) => showInvoice(state, invoice));
}

export function showOneInvoice(state: StripeState, id: string): FakeResponse {
  const invoice = invoiceOf(state, id);
  return invoice === undefined ? missing('invoice', id) : ok(showInvoice(state, invoice));
}

export function listLines(state: StripeState, id: string, query: Form): FakeResponse {
  const invoice = invoiceOf(state, id);
  if (invoice === undefined) return missing('invoice', id);
  const lines = invoice.lines.toReversed();
  return page(`/v1/invoices/${id}/lines`, query, lines, (line) => showLine(state, invoice, line));
}

/** Returns the invoice of a subscription's running period so far, without making it. */
export function previewInvoice(state: StripeState, form: Form, at: number): FakeResponse {
  const unknown = unknownParameter(form, ['customer', 'subscription']);
  if (unknown !== undefined) return unknown;
  const id = text(form, 'subscription') ?? '';
  const subscription = state.subscriptions.get(id);
  if (subscription === undefined) return missing('subscription', id);
  const { customer, currency, periodStart, periodEnd } = subscription;
  const waiting = state.invoiceItems.filter(
    (item) => item.invoice === undefined && item.line.subscription === id,
  );
  const lines = liveItems(subscription).map((item) =>
    usageLine(state, subscription, item, periodEnd, true),
  );
  const preview: Invoice = {
    id: nextId(state, 'upcoming_in'),
    customer,
    subscription: id,
    currency,
    reason: 'subscription_cycle',
    created: Math.floor(at / 1000),
    periodStart,
    periodEnd,
    status: 'draft',
    finalizesAt: undefined,
    finalizedAt: undefined,
    collects: true,
    granted: new Map(),
    balance: 0,
    attempts: 0,
    dueAt: undefined,
    lines: [...waiting.map(({ line }) => line), ...lines],
  };
  return ok(showInvoice(state, preview));
}

export function createInvoice(state: StripeState, form: Form, at: number): FakeResponse {
  const known = [
    'customer',
    'subscription',
    'currency',
    'auto_advance',
    'collection_method',
    'days_until_due',
    'description',
    'metadata',
    'pending_invoice_items_behavior',
  ];
  const unknown = unknownParameter(form, known);
  if (unknown !== undefined) return unknown;
  const customer = text(form, 'customer') ?? '';
  if (state.customers.get(customer)?.deleted !== false) return missing('customer', customer);
  const now = Math.floor(at / 1000);
  const invoice = makeInvoice(state, {
    customer,
    currency: text(form, 'currency') ?? 'usd',
    subscription: state.subscriptions.get(text(form, 'subscription') ?? ''),
    reason: 'manual',
    lines: [],
    periodStart: now,
    at: now,
    finalizesAt: text(form, 'auto_advance') === 'true' ? now + state.rules.graceSeconds : Infinity,
  });
  return ok(showInvoice(state, invoice));
}

/** Turns an invoice's automatic collection on or off. */
export function updateInvoice(
  state: StripeState,
  id: string,
  form: Form,
  at: number,
): FakeResponse {
  const unknown = unknownParameter(form, ['auto_advance']);
  if (unknown !== undefined) return unknown;
  const invoice = invoiceOf(state, id);
  if (invoice === undefined) return missing('invoice', id);
  invoice.collects = text(form, 'auto_advance') === 'true';
  if (invoice.collects && invoice.finalizesAt !== undefined) {
    invoice.finalizesAt = Math.max(invoice.finalizesAt, Math.floor(at / 1000));
  }
  return ok(showInvoice(state, invoice));
}

export type InvoiceAction = 'finalize' | 'void' | 'pay' | 'mark_uncollectible';

/** Finalizes, voids, pays or gives up an invoice by hand. */
export function actOnInvoice(
  state: StripeState,
  id: string,
  action: InvoiceAction,
  at: number,
): FakeResponse {
  const invoice = invoiceOf(state, id);
  if (invoice === undefined) return missing('invoice', id);
  const now = Math.floor(at / 1000);
  if (action === 'finalize') {
    if (invoice.status !== 'draft') return invalid('This invoice is already finalized.');
    finalize(state, invoice, now);
    return ok(showInvoice(state, invoice));
  }
  if (invoice.status !== 'open' && invoice.status !== 'uncollectible') {
    return invalid(`You cannot do that with an invoice that is ${invoice.status}.`);
  }
  const becomes = { void: 'void', pay: 'paid', mark_uncollectible: 'uncollectible' } as const;
  const reports = { void: 'voided', pay: 'paid', mark_uncollectible: 'marked_uncollectible' };
  invoice.status = becomes[action];
  notify(state, `invoice.${reports[action]}`, invoice, now);
  return ok(showInvoice(state, invoice));
}

/** Adds a one-off item to the next invoice. */
export function createInvoiceItem(state: StripeState, form: Form, at: number): FakeResponse {
  const known = [
    'customer',
    'currency',
    'amount',
    'unit_amount_decimal',
    'price_data',
    'quantity',
    'description',
    'discountable',
    'subscription',
    'period',
    'metadata',
    'tax_behavior',
    'tax_rates',
  ];
  const unknown = unknownParameter(form, known);
  if (unknown !== undefined) return unknown;
  const customer = text(form, 'customer') ?? '';
  if (state.customers.get(customer)?.deleted !== false) return missing('customer', customer);
  const quantity = parseExact(text(form, 'quantity') ?? '1');
  const unit = text(form, 'price_data', 'unit_amount');
  const amount = text(form, 'amount') ?? unit;
  const price = parseExact(amount ?? text(form, 'unit_amount_decimal') ?? '');
  if (quantity === undefined || price === undefined) return invalid('Invalid amount or quantity');
  if (!/^-?\d+$/.test(amount ?? '0')) return invalid('Invalid integer: amount');
  if (unit?.startsWith('-') === true) {
    return invalid('This value must be greater than or equal to 0.');
  }
  const product = text(form, 'price_data', 'product');
  const products = [...state.prices.values()].map((one) => one.product);
  if (unit !== undefined && !products.includes(product ?? '')) {
    return missing('product', product ?? '');
  }
  const tax = itemTax(state, form);
  if ('status' in tax) return tax;
  const metadata = texts(form, 'metadata');
  const problem = metadataProblem(metadata);
  if (problem !== undefined) return problem;
  const pending = state.invoiceItems.filter(
    (item) => item.customer === customer && item.invoice === undefined,
  );
  if (pending.length >= MAX_PENDING_ITEMS) {
    return invalid('You can only have 250 pending invoice items for a customer.');
  }
  const now = Math.floor(at / 1000);
  const line: InvoiceLine = {
    id: nextId(state, 'il'),
    description: text(form, 'description') ?? '',
    price: unit === undefined ? null : oneOffPrice(state, form, unit, now),
    subscription: text(form, 'subscription') ?? null,
    from: Number(text(form, 'period', 'start') ?? now),
    to: Number(text(form, 'period', 'end') ?? now),
    reading: undefined,
    quantity,
    cents: times(price, quantity),
    events: [],
    ...tax,
    isDiscountable: (text(form, 'discountable') ?? String(price.digits >= 0n)) === 'true',
  };
  const id = addInvoiceItem(state, customer, text(form, 'currency') ?? 'usd', line, {
    created: now,
    metadata,
  });
  const item = state.invoiceItems.find((one) => one.id === id);
  return item === undefined ? missing('invoiceitem', id) : ok(showInvoiceItem(item));
}

/** Returns the tax of an item: Stripe Tax computes it, else it is that of its own rates. */
function itemTax(
  { rules: { tax } }: StripeState,
  form: Form,
): Pick<InvoiceLine, 'taxBehavior' | 'isTaxed'> | FakeResponse {
  const stated = text(form, 'price_data', 'tax_behavior') ?? text(form, 'tax_behavior');
  const hasRates = Object.keys(texts(form, 'tax_rates')).length > 0;
  if (tax?.isAutomatic === true && hasRates) {
    return invalid('You cannot set `tax_rates` when automatic tax is enabled.');
  }
  if (tax?.isAutomatic === true && stated !== 'exclusive' && stated !== 'inclusive') {
    return invalid('`tax_behavior` is required: the account has no default for it.');
  }
  const isAutomatic = tax?.isAutomatic === true;
  return {
    taxBehavior: (isAutomatic ? stated : tax?.behavior) ?? 'unspecified',
    isTaxed: isAutomatic || hasRates,
  };
}

/** Creates the price for one item. */
function oneOffPrice(state: StripeState, form: Form, unit: string, created: number): string {
  const of = (name: string): string | undefined => text(form, 'price_data', name);
  const price: Price = {
    id: nextId(state, 'price'),
    created,
    currency: of('currency') ?? '',
    currencyOptions: [],
    product: of('product') ?? '',
    unit_amount_decimal: unit,
    tiers_mode: null,
    tiers: undefined,
    lookup_key: null,
    interval: undefined,
    meter: null,
    tax_behavior: of('tax_behavior') ?? 'unspecified',
    active: false,
    nickname: null,
    metadata: {},
  };
  state.prices.set(price.id, price);
  return price.id;
}

export function listInvoiceItems(state: StripeState, query: Form): FakeResponse {
  const unknown = unknownParameter(query, ['customer', 'invoice', 'pending', 'created', ...PAGING]);
  if (unknown !== undefined) return unknown;
  const customer = text(query, 'customer');
  const pending = text(query, 'pending');
  const found = state.invoiceItems.filter(
    (item) =>
      (customer === undefined || item.customer === customer) &&
      isCreatedWithin(query, item.created) &&
      (pending === undefined || String(item.invoice === undefined) === pending),
  );
  return page('/v1/invoiceitems', query, found, showInvoiceItem);
}

export function listItems(state: StripeState, query: Form): FakeResponse {
  const unknown = unknownParameter(query, ['subscription', ...PAGING]);
  if (unknown !== undefined) return unknown;
  const id = text(query, 'subscription') ?? '';
  const subscription = state.subscriptions.get(id);
  if (subscription === undefined) return missing('subscription', id);
  const { data } = showSubscription(state, subscription).items;
  return page('/v1/subscription_items', query, data.toReversed(), (item) => item);
}

export function invoiceOf(state: StripeState, id: string): Invoice | undefined {
  return state.invoices.find((one) => one.id === id);
}
