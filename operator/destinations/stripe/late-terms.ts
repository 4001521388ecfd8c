import type { FailedStep } from '../failed-step.ts';
import { failedStep } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import type { LateLine } from '../late.ts';
import { invoiceLines } from './invoices.ts';
import type { Params, StripeClient } from './stripe-client.ts';

/** How a line of a final invoice was taxed and reduced. */
interface LineTerms {
  readonly product: string | undefined;
  /** Whether prices include the tax, where Stripe Tax computes it; undefined where it does not. */
  readonly taxBehavior: string | undefined;
  /** Ids of tax rates that were set by hand. */
  readonly taxRates: readonly string[];
  /** Neither taxes nor discounts nor prepaid credits were applied to it. */
  readonly isPlain: boolean;
}

/**
 * Reads how the invoice line that has a late line's price was taxed and reduced, so that Stripe taxes the late
 * line in the same way (docs/explanation/delivery.md#late-usage).
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
 * The amount of an invoice item. With the product of the line of its time, Stripe applies the product's tax code and
 * the coupons that are for the product.
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
 * Whether Stripe would put tax on top of a credit whose price includes it. With Stripe Tax the amount of a credit note's line
 * is without tax (https://docs.stripe.com/api/credit_notes/create).
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
