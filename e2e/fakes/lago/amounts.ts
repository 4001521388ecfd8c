import { type Exact, exact, minus, plus, share, rounded, ZERO } from '../exact.ts';
import type { Fee, Invoice, LagoState } from './state.ts';

const DECIMALS = 15;
/** The code of the tax that a stand-in has. */
export const TAX_CODE = 'vat';

/** The amounts of a part of a fee, in cents, not rounded. */
export interface FeeAmounts {
  /** Subtracted by coupons, before tax. */
  readonly coupons: Exact;
  readonly taxes: Exact;
}

/**
 * Returns the amounts of a part of a fee (lago-api
 * app/services/credit_notes/apply_taxes_service.rb).
 */
export function feeAmounts(
  { rules }: LagoState,
  invoice: Invoice,
  fee: Fee,
  cents: Exact = exact(String(rounded(fee.cents))),
): FeeAmounts {
  // Lago applies no coupons to one-off invoices.
  const percent = invoice.type === 'one_off' ? 0 : rules.couponPercent;
  const coupons = share(cents, percent, 100, DECIMALS);
  const taxes = isTaxed(rules, fee)
    ? share(minus(cents, coupons), rules.tax?.percent ?? 0, 100, DECIMALS)
    : ZERO;
  return { coupons, taxes };
}

export function isTaxed({ tax }: LagoState['rules'], fee: Fee): boolean {
  if (tax === undefined) return false;
  if (fee.type !== 'add_on' || tax.of === 'provider') return true;
  return fee.taxCodes === undefined ? tax.of === 'customer' : fee.taxCodes.includes(TAX_CODE);
}

/** Returns the amounts of an invoice before prepaid amounts and credits. */
export function invoiceAmounts(state: LagoState, invoice: Invoice) {
  const amounts = invoice.fees.map((fee) => feeAmounts(state, invoice, fee));
  const sumOf = (field: keyof FeeAmounts): number =>
    rounded(amounts.reduce((sum, one) => plus(sum, one[field]), ZERO));
  const fees = invoice.fees.reduce((sum, { cents }) => sum + rounded(cents), 0);
  const [coupons, taxes] = [sumOf('coupons'), sumOf('taxes')];
  return { fees, coupons, taxes, total: fees - coupons + taxes };
}
