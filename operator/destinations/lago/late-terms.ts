import { isNegative } from '../../model/correction.ts';
import type { UsageEvent } from '../../model/event.ts';
import { quote } from '../../model/quote.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import type { LateLine } from '../late.ts';
import type { LagoClient } from './lago-client.ts';

/**
 * Returns the tax codes of the fee that priced a late line. It leaves out taxes of a tax provider:
 * they have no id at Lago, and Lago requests them again for each invoice.
 */
export async function taxCodesOf(
  client: LagoClient,
  { price }: LateLine,
  signal: AbortSignal,
): Promise<readonly string[] | ApiProblem> {
  const answer = await client.get(`/fees/${encodeURIComponent(price.line ?? '')}`, signal);
  if (answer.kind !== 'ok') return answer;
  return objectsOf(objectOf(answer.body, 'fee'), 'applied_taxes')
    .filter((tax) => textOf(tax, 'lago_tax_id') !== undefined)
    .flatMap((tax) => textOf(tax, 'tax_code') ?? []);
}

/**
 * Returns why late usage cannot be billed like a fee: Lago applies no coupon to one-off invoices.
 * Undefined where it can, and for negative usage, whose credit note includes the coupon.
 */
export function couponProblem(
  invoice: JsonObject,
  fee: JsonObject,
  { quantity }: UsageEvent,
): string | undefined {
  const coupons = Number(fee['precise_coupons_amount_cents'] ?? invoice['coupons_amount_cents']);
  if (!(coupons > 0) || isNegative(quantity)) return undefined;
  const id = quote(textOf(invoice, 'lago_id') ?? '');
  return `its charge has a coupon, and Lago applies none to one-off invoices: invoice: ${id}; bill it there by hand and discard it`;
}
