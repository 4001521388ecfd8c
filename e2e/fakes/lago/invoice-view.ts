import { minus, plus, textOf, rounded } from '../exact.ts';
import { feeAmounts, invoiceAmounts, isTaxed, TAX_CODE } from './amounts.ts';
import type { FakeResponse } from '../fake-server.ts';
import { notFound, ok } from './answers.ts';
import type { Fee, Invoice, LagoState } from './state.ts';

const DAY_MS = 86_400_000;

/** Returns an invoice as Lago shows it (lago-api app/serializers/v1/invoice_serializer.rb). */
export function showInvoice(state: LagoState, invoice: Invoice) {
  const { fees, coupons, taxes, total } = invoiceAmounts(state, invoice);
  const credited = state.creditNotes
    .filter((note) => note.invoice === invoice.lago_id)
    .reduce((total, note) => total + note.cents, 0);
  const due = dueCents(state, invoice);
  const subscriptions = new Set(invoice.fees.flatMap(({ subscription }) => subscription ?? []));
  return {
    lago_id: invoice.lago_id,
    billing_entity_code: 'default',
    sequential_id: state.invoices.indexOf(invoice) + 1,
    number: invoice.number,
    issuing_date: isoDay(invoice.issuingDay),
    payment_due_date: isoDay(invoice.issuingDay + (netTermOf(state, invoice) ?? 0)),
    net_payment_term: netTermOf(state, invoice) ?? 0,
    invoice_type: invoice.type,
    status: invoice.status,
    payment_status: invoice.payment_status,
    payment_overdue: invoice.payment_overdue,
    currency: invoice.currency,
    fees_amount_cents: fees,
    taxes_amount_cents: taxes,
    coupons_amount_cents: coupons,
    credit_notes_amount_cents: credited,
    sub_total_excluding_taxes_amount_cents: fees - coupons,
    sub_total_including_taxes_amount_cents: total,
    progressive_billing_credit_amount_cents: invoice.progressiveCents,
    total_amount_cents: due,
    total_due_amount_cents: invoice.payment_status === 'succeeded' ? 0 : due - credited,
    prepaid_credit_amount_cents: invoice.prepaidCents,
    version_number: 4,
    created_at: new Date(invoice.createdAt).toISOString(),
    updated_at: new Date(invoice.finalizedAt ?? invoice.createdAt).toISOString(),
    voided_at: invoice.voidedAt === undefined ? null : new Date(invoice.voidedAt).toISOString(),
    customer: state.customers.get(invoice.customer) ?? { external_id: invoice.customer },
    subscriptions: state.subscriptions
      .filter(({ lago_id }) => subscriptions.has(lago_id))
      .map(({ lago_id, external_id, plan_code, status }) => ({
        lago_id,
        external_id,
        plan_code,
        status,
      })),
    billing_periods: invoice.scopes.map(({ subscription, from, to }) => ({
      lago_subscription_id: subscription,
      external_subscription_id: externalId(state, subscription),
      charges_from_datetime: new Date(from).toISOString(),
      charges_to_datetime: new Date(to).toISOString(),
      invoicing_reason: invoice.reason,
    })),
    fees: invoice.fees.map((fee) => showFee(state, invoice, fee)),
  };
}

/** Returns one line (lago-api app/serializers/v1/fee_serializer.rb). */
export function showFee(state: LagoState, invoice: Invoice, fee: Fee) {
  const { lago_id, type, code, charge, filters, subscription, units, cents, from, to } = fee;
  const { coupons, taxes } = feeAmounts(state, invoice, fee);
  return {
    lago_id,
    lago_charge_id: charge,
    lago_true_up_parent_fee_id: fee.trueUpOf ?? null,
    lago_invoice_id: invoice.lago_id,
    lago_subscription_id: subscription,
    external_subscription_id: subscription === null ? null : externalId(state, subscription),
    external_customer_id: invoice.customer,
    item: {
      type,
      code,
      name: state.metrics.get(code)?.name ?? code,
      filters,
      invoice_display_name: fee.displayName ?? null,
    },
    description: fee.description ?? null,
    pay_in_advance: invoice.reason === 'in_advance_charge',
    invoiceable: true,
    amount_cents: rounded(cents),
    amount_currency: invoice.currency,
    precise_amount: textOf({ ...cents, scale: cents.scale + 2 }),
    precise_coupons_amount_cents: textOf(coupons),
    taxes_amount_cents: rounded(taxes),
    total_amount_cents: rounded(plus(minus(cents, coupons), taxes)),
    precise_unit_amount: textOf(fee.each),
    amount_details: {},
    units: textOf(units),
    total_aggregated_units: textOf(units),
    events_count: fee.events.length,
    payment_status: invoice.payment_status,
    created_at: new Date(invoice.createdAt).toISOString(),
    from_date: from === null ? null : new Date(from).toISOString(),
    to_date: to === null ? null : new Date(to).toISOString(),
  };
}

/**
 * Returns a fee by itself with its taxes, which invoices do not show (lago-api
 * app/controllers/api/v1/fees_controller.rb).
 */
export function showOneFee(state: LagoState, id: string): FakeResponse {
  const invoice = state.invoices.find(({ fees }) => fees.some(({ lago_id }) => lago_id === id));
  const fee = invoice?.fees.find(({ lago_id }) => lago_id === id);
  if (invoice === undefined || fee === undefined) return notFound('fee');
  const { percent, of } = state.rules.tax ?? {};
  // Lago has no id for a provider's tax.
  const lago_tax_id = of === 'provider' ? null : 'tax_1';
  const tax = { lago_tax_id, tax_code: TAX_CODE, tax_rate: percent };
  const applied_taxes = isTaxed(state.rules, fee) ? [tax] : [];
  return ok({ fee: { ...showFee(state, invoice, fee), applied_taxes } });
}

/**
 * Returns after how many days from its issuing date an unpaid invoice is overdue; undefined for
 * never.
 */
export function netTermOf(state: LagoState, { customer }: Invoice): number | undefined {
  return state.customers.get(customer)?.net_payment_term ?? state.rules.netTermDays;
}

/** Returns the total of the fees, each rounded. */
export function totalCents({ fees }: Invoice): number {
  return fees.reduce((total, { cents }) => total + rounded(cents), 0);
}

/**
 * Returns the cents of earlier invoices for the same usage (lago-api
 * app/services/credits/progressive_billing_service.rb).
 */
export function progressiveCentsOf(state: LagoState, made: Invoice): number {
  return made.scopes.reduce((sum, { subscription, from }) => {
    const last = state.invoices.findLast(
      (one) =>
        one !== made &&
        one.type === 'progressive_billing' &&
        one.status === 'finalized' &&
        one.scopes.some(
          (scope) => scope.subscription === subscription && scope.from <= from && from < scope.to,
        ),
    );
    const billed = last?.fees.reduce((total, { cents }) => total + rounded(cents), 0) ?? 0;
    const usage = made.fees.filter(({ type }) => type === 'charge');
    const most = usage.reduce((total, { cents }) => total + rounded(cents), 0);
    return sum + Math.min(billed, most);
  }, 0);
}

/** Returns the amount due after progressive invoices and prepaid credit. */
export function dueCents(state: LagoState, invoice: Invoice): number {
  return invoiceAmounts(state, invoice).total - invoice.progressiveCents - invoice.prepaidCents;
}

function externalId(state: LagoState, id: string): string | null {
  return state.subscriptions.find(({ lago_id }) => lago_id === id)?.external_id ?? null;
}

function isoDay(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}
