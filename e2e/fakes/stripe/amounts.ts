import { type Exact, exact, share, rounded } from '../exact.ts';
import type { Invoice, InvoiceLine, LineAmounts, StripeState } from './state.ts';

/** Returns the amounts of a line. Discounts come first, then prepaid credits, then taxes. */
export function lineAmounts(state: StripeState, invoice: Invoice, line: InvoiceLine): LineAmounts {
  const gross = rounded(line.cents);
  const discount = line.isDiscountable ? percentOf(gross, state.rules.discountPercent) : 0;
  const granted = invoice.granted.get(line.id) ?? 0;
  return withTax(state, line, { gross, discount, granted });
}

function withTax(
  { rules }: StripeState,
  line: InvoiceLine,
  parts: Pick<LineAmounts, 'gross' | 'discount' | 'granted'>,
): LineAmounts {
  const isInclusive = line.taxBehavior === 'inclusive';
  const taxable = parts.gross - parts.discount - parts.granted;
  const percent = line.isTaxed ? (rules.tax?.percent ?? 0) : 0;
  const tax = isInclusive ? part(taxable, percent, 100 + percent) : percentOf(taxable, percent);
  return { ...parts, tax, isInclusive, total: taxable + (isInclusive ? 0 : tax) };
}

/**
 * Returns the amounts of a credit of a line: its share of the discount and of the prepaid credits,
 * and its tax. With Stripe Tax the requested amount is without tax
 * (https://docs.stripe.com/api/credit_notes/create).
 */
export function creditAmounts(
  state: StripeState,
  invoice: Invoice,
  line: InvoiceLine,
  requested: number,
): LineAmounts {
  const own = lineAmounts(state, invoice, line);
  const { percent = 0, isAutomatic = false } = state.rules.tax ?? {};
  const gross =
    own.isInclusive && isAutomatic ? requested + percentOf(requested, percent) : requested;
  const shareOf = (amount: number): number =>
    own.gross === 0 ? 0 : part(amount, gross, own.gross);
  const parts = { gross, discount: shareOf(own.discount), granted: shareOf(own.granted) };
  return withTax(state, line, parts);
}

/** Returns the total of the lines, each rounded. */
export function totalCents(state: StripeState, invoice: Invoice): number {
  return invoice.lines.reduce((sum, line) => sum + lineAmounts(state, invoice, line).total, 0);
}

/** Pays the usage of an invoice from prepaid amounts, as far as they last. */
export function applyGrants(state: StripeState, invoice: Invoice): void {
  for (const line of invoice.lines) {
    if (!isUsage(state, line)) continue;
    const left = state.grants.get(invoice.customer) ?? state.rules.grantedCents;
    const { gross, discount } = lineAmounts(state, invoice, line);
    const granted = Math.min(left, Math.max(0, gross - discount));
    if (granted === 0) continue;
    invoice.granted.set(line.id, granted);
    state.grants.set(invoice.customer, left - granted);
  }
}

export function isUsage({ prices }: StripeState, { price }: InvoiceLine): boolean {
  return typeof prices.get(price ?? '')?.meter === 'string';
}

function percentOf(amount: number, percent: number): number {
  return part(amount, percent, 100);
}

function part(amount: number, numerator: number, denominator: number): number {
  return rounded(share(cents(amount), numerator, denominator, 6));
}

function cents(amount: number): Exact {
  return exact(String(amount));
}
