import { textOf, rounded } from '../exact.ts';
import { lineAmounts, totalCents } from './amounts.ts';
import type {
  CreditNote,
  Invoice,
  InvoiceItem,
  InvoiceLine,
  LineAmounts,
  StripeState,
} from './state.ts';

const DISCOUNT = 'di_1';
/** The rate of every tax. */
export const TAX_RATE = 'txr_1';

/** Returns an invoice as Stripe shows it (https://docs.stripe.com/api/invoices/object). */
export function showInvoice(state: StripeState, invoice: Invoice) {
  const total = totalCents(state, invoice);
  const credited = state.creditNotes
    .filter((note) => note.invoice === invoice.id)
    .reduce((sum, { amount, toBalance }) => sum + amount - toBalance, 0);
  const returned = state.creditNotes
    .filter((note) => note.invoice === invoice.id)
    .reduce((sum, { toBalance }) => sum + toBalance, 0);
  const due = invoice.status === 'paid' ? 0 : total + invoice.balance - credited;
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
      invoice.collects && (invoice.status === 'open' || Number.isFinite(invoice.finalizesAt)),
    automatically_finalizes_at:
      invoice.collects && Number.isFinite(invoice.finalizesAt) ? invoice.finalizesAt : null,
    automatic_tax: { enabled: state.rules.tax?.isAutomatic === true },
    attempted: invoice.attempts > 0,
    attempt_count: invoice.attempts,
    due_date: invoice.dueAt ?? null,
    created: invoice.created,
    period_start: invoice.periodStart,
    period_end: invoice.periodEnd,
    subtotal: invoice.lines.reduce((sum, { cents }) => sum + rounded(cents), 0),
    starting_balance: invoice.balance,
    total,
    amount_due: due,
    amount_paid: total + invoice.balance - credited - due,
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
  const { discount, granted, ...amounts } = lineAmounts(state, invoice, line);
  return {
    id: line.id,
    object: 'line_item',
    invoice: invoice.id,
    livemode: false,
    amount: rounded(line.cents),
    subtotal: rounded(line.cents),
    currency: invoice.currency,
    description: line.description,
    discountable: line.isDiscountable,
    ...shownReductions({ discount, granted }),
    taxes: shownTaxes(state, line, amounts),
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
    amount: rounded(line.cents),
    description: line.description,
    invoice: invoice ?? null,
    date: created,
    metadata,
    period: { start: line.from, end: line.to },
    quantity: Math.round(Number(textOf(line.quantity))),
  };
}

/** Returns the reductions before tax. */
function shownReductions({ discount, granted }: Pick<LineAmounts, 'discount' | 'granted'>) {
  const discounts = discount === 0 ? [] : [{ amount: discount, discount: DISCOUNT }];
  const grants = granted === 0 ? [] : [{ amount: granted, type: 'credit_balance_transaction' }];
  return {
    discount_amounts: discounts,
    pretax_credit_amounts: [...discounts.map((one) => ({ ...one, type: 'discount' })), ...grants],
  };
}

function shownTaxes(
  { rules }: StripeState,
  line: Pick<InvoiceLine, 'isTaxed' | 'taxBehavior'>,
  { tax }: Pick<LineAmounts, 'tax'>,
) {
  if (rules.tax === undefined || !line.isTaxed) return [];
  return [
    {
      amount: tax,
      tax_behavior: line.taxBehavior,
      tax_rate_details: { tax_rate: TAX_RATE },
      taxability_reason: rules.tax.percent === 0 ? 'reverse_charge' : 'standard_rated',
      type: 'tax_rate_details',
    },
  ];
}

export function showCreditNote(state: StripeState, note: CreditNote) {
  const invoice = state.invoices.find(({ id }) => id === note.invoice);
  const { toBalance, lines, discount, ...shown } = note;
  return {
    ...shown,
    object: 'credit_note',
    currency: invoice?.currency,
    customer: invoice?.customer,
    livemode: false,
    status: 'issued',
    total: note.amount,
    discount_amount: discount,
    pre_payment_amount: note.amount - toBalance,
    post_payment_amount: toBalance,
    lines: {
      object: 'list',
      url: `/v1/credit_notes/${note.id}/lines`,
      has_more: false,
      data: lines.map(({ line, gross, isInclusive, ...amounts }) => ({
        object: 'credit_note_line_item',
        type: 'invoice_line_item',
        invoice_line_item: line,
        amount: gross,
        discount_amount: amounts.discount,
        taxes: shownTaxes(
          state,
          { isTaxed: true, taxBehavior: isInclusive ? 'inclusive' : 'exclusive' },
          amounts,
        ),
      })),
    },
  };
}
