import type { FailedStep } from '../failed-step.ts';
import { failedStep } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import type { LateLine } from '../late.ts';
import { invoiceLines } from './invoices.ts';
import type { Params, StripeClient } from './stripe-client.ts';

/** The taxes and discounts of a line of a final invoice. */
interface LineTerms {
  readonly product: string | undefined;
  /** How prices relate to taxes of Stripe Tax; undefined without Stripe Tax. */
  readonly taxBehavior: string | undefined;
  /** Ids of tax rates that people set. */
  readonly taxRates: readonly string[];
  /** True if the line has neither taxes nor discounts nor prepaid credits. */
  readonly isPlain: boolean;
}

/**
 * Reads the taxes and discounts of the invoice line that priced late usage. Stripe then taxes the
 * late line in the same way (docs/explanation/delivery.md#late-usage).
 */
export async function lineTerms(
  client: StripeClient,
  { price: { invoice: id, line } }: LateLine,
  signal: AbortSignal,
): Promise<LineTerms | FailedStep> {
  const answer = await client.get(`/v1/invoices/${encodeURIComponent(id)}`, {}, signal);
  if (answer.kind !== 'ok') return failedStep(answer);
  const lines = await invoiceLines(client, answer.body, signal);
  if ('reason' in lines) return failedStep(lines);
  const own = lines.find((one) => textOf(one, 'id') === line) ?? {};
  const taxes = objectsOf(own, 'taxes');
  const isAutomatic = hasStripeTax(answer.body);
  const rates = taxes.flatMap((tax) => textOf(objectOf(tax, 'tax_rate_details'), 'tax_rate') ?? []);
  const reductions = ['discount_amounts', 'pretax_credit_amounts'].flatMap((field) =>
    objectsOf(own, field),
  );
  return {
    product: textOf(objectOf(objectOf(own, 'pricing'), 'price_details'), 'product'),
    taxBehavior: isAutomatic ? textOf(taxes[0] ?? {}, 'tax_behavior') : undefined,
    taxRates: isAutomatic ? [] : [...new Set(rates)],
    isPlain: taxes.length + reductions.length === 0,
  };
}

/**
 * Returns the amount of an invoice item. With the product of the original line Stripe applies its
 * tax code and its coupons.
 */
export function amountParams({ minor, price }: LateLine, terms: LineTerms): Params {
  const currency = price.currency.toLowerCase();
  if (terms.isPlain) return { currency, amount: String(minor) };
  const { product, taxBehavior: tax_behavior, taxRates: tax_rates } = terms;
  return {
    currency,
    price_data: { currency, product, unit_amount: String(minor), tax_behavior },
    tax_rates,
  };
}

/**
 * Returns whether Stripe would add tax to a credit whose price includes it. With Stripe Tax the
 * amount of a credit note's line is without tax (https://docs.stripe.com/api/credit_notes/create).
 */
export function isTaxedTwice(invoice: JsonObject, line: JsonObject): boolean {
  const isInclusive = objectsOf(line, 'taxes').some(
    (tax) => textOf(tax, 'tax_behavior') === 'inclusive' && Number(tax['amount']) > 0,
  );
  return isInclusive && hasStripeTax(invoice);
}

function hasStripeTax(invoice: JsonObject): boolean {
  return objectOf(invoice, 'automatic_tax')['enabled'] === true;
}
