import { textOf, whole } from '../exact.ts';
import type { CreditNote, Invoice, InvoiceItem, InvoiceLine, StripeState } from './state.ts';

/** An invoice as Stripe shows it (https://docs.stripe.com/api/invoices/object). */
export function showInvoice(state: StripeState, invoice: Invoice) {
  const total = totalCents(invoice);
  const credited = state.creditNotes
    .filter((note) => note.invoice === invoice.id)
    .reduce((sum, { amount, toBalance }) => sum + amount - toBalance, 0);
  const returned = state.creditNotes
    .filter((note) => note.invoice === invoice.id)
    .reduce((sum, { toBalance }) => sum + toBalance, 0);
  const due = invoice.status === 'paid' ? 0 : total - credited;
  return {
    id: invoice.id,
    object: 'invoice',
    livemode: false,
    customer: invoice.customer,
    currency: invoice.currency,
    status: invoice.status,
    billing_reason: invoice.reason,
    collection_method:
      state.subscriptions.get(invoice.subscription ?? '')?.collectionMethod ??
      'charge_automatically',
    auto_advance:
      invoice.status === 'open' ? invoice.collects : Number.isFinite(invoice.finalizesAt),
    automatically_finalizes_at: Number.isFinite(invoice.finalizesAt) ? invoice.finalizesAt : null,
    attempted: invoice.attempts > 0,
    attempt_count: invoice.attempts,
    due_date: invoice.dueAt ?? null,
    created: invoice.created,
    period_start: invoice.periodStart,
    period_end: invoice.periodEnd,
    subtotal: total,
    total,
    amount_due: due,
    amount_paid: total - credited - due,
    amount_remaining: due,
    pre_payment_credit_notes_amount: credited,
    post_payment_credit_notes_amount: returned,
    metadata: {},
    parent:
      invoice.subscription === null
        ? null
        : {
            type: 'subscription_details',
            subscription_details: { subscription: invoice.subscription, metadata: {} },
          },
    status_transitions: {
      finalized_at: invoice.finalizedAt ?? null,
      marked_uncollectible_at: null,
      paid_at: invoice.status === 'paid' ? (invoice.finalizedAt ?? null) : null,
      voided_at: null,
    },
    lines: {
      object: 'list',
      url: `/v1/invoices/${invoice.id}/lines`,
      has_more: false,
      data: invoice.lines.map((line) => showLine(state, invoice, line)),
    },
  };
}

export function showLine(state: StripeState, invoice: Invoice, line: InvoiceLine) {
  const price = state.prices.get(line.price ?? '');
  const quantity = textOf(line.quantity);
  return {
    id: line.id,
    object: 'line_item',
    invoice: invoice.id,
    livemode: false,
    amount: whole(line.cents),
    subtotal: whole(line.cents),
    currency: invoice.currency,
    description: line.description,
    metadata: {},
    period: { start: line.from, end: line.to },
    quantity: Math.round(Number(quantity)),
    quantity_decimal: quantity,
    subscription: line.subscription,
    pricing:
      price === undefined
        ? null
        : {
            type: 'price_details',
            price_details: { price: price.id, product: price.product },
            unit_amount_decimal: price.unit_amount_decimal,
          },
  };
}

export function showInvoiceItem({
  id,
  customer,
  currency,
  line,
  invoice,
  created,
  metadata,
}: InvoiceItem) {
  return {
    id,
    object: 'invoiceitem',
    livemode: false,
    customer,
    currency,
    amount: whole(line.cents),
    description: line.description,
    invoice: invoice ?? null,
    date: created,
    metadata,
    period: { start: line.from, end: line.to },
    quantity: Math.round(Number(textOf(line.quantity))),
  };
}

export function showCreditNote(state: StripeState, note: CreditNote) {
  const invoice = state.invoices.find(({ id }) => id === note.invoice);
  const { toBalance, ...shown } = note;
  return {
    ...shown,
    object: 'credit_note',
    currency: invoice?.currency,
    customer: invoice?.customer,
    livemode: false,
    status: 'issued',
    total: note.amount,
    pre_payment_amount: note.amount - toBalance,
    post_payment_amount: toBalance,
  };
}

/** Lines are rounded one by one. */
export function totalCents({ lines }: Invoice): number {
  return lines.reduce((total, { cents }) => total + whole(cents), 0);
}
