import { decimalFromNanos, parseDecimal, nanosFromDecimal } from '../../model/decimal.ts';
import type { PriceCharge, PriceBook } from '../../model/price-book.ts';
import { parseAmount } from '../../model/pricing/amount.ts';
import { dependsOnMonth } from '../../model/pricing/charges.ts';
import {
  comparePrices,
  type PriceOnDay,
  type PriceThere,
  usagePlace,
  wantedByUsage,
} from '../../model/pricing/compare.ts';
import { plainCharge } from '../../model/pricing/same-charge.ts';
import { type JsonObject, objectOf, objectsOf, textOf, textsOf } from '../json.ts';
import type { ComparedBook, PricesOutcome, PricesQuery } from '../prices.ts';
import type { LagoClient } from './lago-client.ts';
import { ANY_VALUE } from './plans.ts';

/** The bound of prices of one filter with several values; nobody reads more of them one by one. */
const MAX_VALUES = 1000;
const LONGEST_TEXT = 200;
const NANOS_PER_UNIT = 1_000_000_000n;
/** A JSON number has this many exact decimal digits. */
const MAX_DIGITS = 15;

/**
 * Compares price books with the charges of their plans at Lago
 * (docs/how-to/destinations/lago.md#prices-of-a-pricebook).
 */
export async function pricesAtLago(
  client: Pick<LagoClient, 'get'>,
  planCode: string,
  { books, metrics, day }: PricesQuery,
  signal: AbortSignal,
): Promise<PricesOutcome> {
  const compared: ComparedBook[] = [];
  for (const { book, isDefault } of books) {
    const plan = isDefault ? planCode : book.name;
    const answer = await client.get(`/plans/${encodeURIComponent(plan)}`, signal);
    const isMissing = answer.kind === 'refused' && answer.code === 'plan_not_found';
    if (answer.kind !== 'ok' && !isMissing) return { kind: 'failed', reason: answer.reason };
    const object = answer.kind === 'ok' ? objectOf(answer.body, 'plan') : undefined;
    const wanted = wantedByUsage(book, day, (price) => whyImpossible(book, price, object));
    const there = object === undefined ? [] : pricesThere(object, metrics);
    const differences = comparePrices(wanted, there);
    const exists = object !== undefined;
    compared.push({ book: book.name, currency: book.currency, plan, exists, differences });
  }
  return { kind: 'compared', books: compared };
}

/** Returns why Lago cannot have a price; undefined where it can. `plan`: undefined without one. */
function whyImpossible(
  { currency }: Pick<PriceBook, 'currency'>,
  { charge }: Pick<PriceOnDay, 'charge'>,
  plan: JsonObject | undefined,
): string | undefined {
  if (charge === undefined) return undefined;
  const theirs = plan && textOf(plan, 'amount_currency');
  if (theirs !== undefined && theirs !== currency) return `the plan is priced in ${theirs}`;
  const plain = plainCharge(charge);
  if (plain.kind === 'volume' && plain.includedNanos > 0n) {
    return 'Lago has no included quantity beside volume tiers';
  }
  const tiers = plain.kind === 'flat' ? [] : plain.tiers;
  if (tiers.some(({ upToNanos }) => digitsOf(upToNanos) > MAX_DIGITS)) {
    return `Lago’s tiers end at numbers of ${MAX_DIGITS} digits`;
  }
  if (
    plain.kind === 'volume' &&
    plain.tiers.some(({ upToNanos }) => upToNanos % NANOS_PER_UNIT > 0n)
  ) {
    return 'Lago’s volume tiers end at whole units';
  }
  const interval = plan === undefined ? 'monthly' : usageInterval(plan);
  if (!dependsOnMonth(charge) || interval === 'monthly') return undefined;
  return `its tiers count by the month, and the plan is invoiced ${interval}`;
}

function usageInterval(plan: JsonObject): string {
  return plan['bill_charges_monthly'] === true ? 'monthly' : (textOf(plan, 'interval') ?? '');
}

function digitsOf(nanos: bigint): number {
  return decimalFromNanos(nanos).replace('.', '').length;
}

function pricesThere(plan: JsonObject, metrics: ReadonlySet<string>): readonly PriceThere[] {
  const first = new Map<string, JsonObject>();
  const charges = objectsOf(plan, 'charges').filter((charge) =>
    metrics.has(textOf(charge, 'billable_metric_code') ?? ''),
  );
  for (const charge of charges) {
    const metric = textOf(charge, 'billable_metric_code') ?? '';
    const isOwn = textOf(charge, 'code') === metric;
    if (isOwn || !first.has(metric)) first.set(metric, charge);
  }
  return charges.flatMap((charge) => {
    const metric = textOf(charge, 'billable_metric_code') ?? '';
    // Every charge bills all usage of its metric: a second one bills it twice.
    const isSecond = first.get(metric) !== charge;
    return pricesOfCharge(charge, metric).map((price) =>
      isSecond ? { ...price, place: `${price.place} by charge "${price.id}"` } : price,
    );
  });
}

function pricesOfCharge(charge: JsonObject, metric: string): readonly PriceThere[] {
  const id = textOf(charge, 'code') ?? textOf(charge, 'lago_id') ?? '';
  const model = textOf(charge, 'charge_model') ?? '';
  const otherwise = chargedOtherwise(charge);
  const read = (properties: JsonObject): PriceCharge | string => {
    const own = readCharge(model, properties);
    return otherwise === undefined ? own : `${otherwise}: ${textOfCharge(model, properties)}`;
  };
  const base = read(objectOf(charge, 'properties'));
  const isFree = typeof base !== 'string' && base.kind === 'flat' && base.picos === 0n;
  const ownPrice = { place: metric, id, charge: base, ...(isFree && { isUnset: true as const }) };
  return [
    ownPrice,
    ...objectsOf(charge, 'filters').flatMap((filter) => {
      const priced = read(objectOf(filter, 'properties'));
      return matchesOf(objectOf(filter, 'values')).map((match) => {
        return { place: placeOf(metric, match), id, charge: priced };
      });
    }),
  ];
}

/** Returns the setting that makes a charge cost something else than its properties, for people. */
function chargedOtherwise(charge: JsonObject): string | undefined {
  if (charge['pay_in_advance'] === true) return 'charged in advance, event by event';
  if (charge['prorated'] === true) return 'prorated';
  if (Number(charge['min_amount_cents'] ?? 0) > 0) return 'with a minimum';
  const unit = textOf(objectOf(charge, 'applied_pricing_unit'), 'code');
  return unit === undefined ? undefined : `in the pricing unit ${unit}`;
}

/** Returns the combinations of a filter's values; one with all values if they are too many. */
function matchesOf(values: JsonObject): readonly Readonly<Record<string, string>>[] {
  const keys = Object.keys(values).map((key) => [key, textsOf(values, key)] as const);
  const count = keys.reduce((product, [, all]) => product * all.length, 1);
  if (count > MAX_VALUES) {
    return [Object.fromEntries(keys.map(([key, all]) => [key, all.join(' or ')]))];
  }
  return keys.reduce<readonly Readonly<Record<string, string>>[]>(
    (matches, [key, all]) =>
      matches.flatMap((match) => all.map((value) => ({ ...match, [key]: value }))),
    [{}],
  );
}

/** Returns the place of a charge's price; `=*` stands for any value, which no price book has. */
function placeOf(metric: string, match: Readonly<Record<string, string>>): string {
  return usagePlace(metric, match).replaceAll(`="${ANY_VALUE}"`, '=*');
}

/** Returns the charge of a model; text where a price book cannot have it. */
function readCharge(model: string, properties: JsonObject): PriceCharge | string {
  const text = textOfCharge(model, properties);
  if (model === 'standard') {
    const picos = parseAmount(textOf(properties, 'amount') ?? '');
    return picos === undefined ? text : { kind: 'flat', picos, includedNanos: 0n };
  }
  if (model !== 'graduated' && model !== 'volume') return text;
  const grouped = [
    ...textsOf(properties, 'pricing_group_keys'),
    ...textsOf(properties, 'grouped_by'),
  ];
  if (grouped.length > 0) return `for each ${[...new Set(grouped)].join(', ')}: ${text}`;
  const tiers: { readonly upToNanos: bigint; readonly picos: bigint }[] = [];
  for (const range of objectsOf(properties, `${model}_ranges`)) {
    const picos = parseAmount(textOf(range, 'per_unit_amount') ?? '');
    if (picos === undefined || parseAmount(textOf(range, 'flat_amount') ?? '0') !== 0n) return text;
    const to = range['to_value'];
    if (to === null || to === undefined) {
      if (tiers.length === 0) return { kind: 'flat', picos, includedNanos: 0n };
      return { kind: model, tiers, beyondPicos: picos, includedNanos: 0n };
    }
    const upTo =
      typeof to === 'number' || typeof to === 'string' ? parseDecimal(`${to}`) : undefined;
    if (upTo === undefined) return text;
    tiers.push({ upToNanos: nanosFromDecimal(upTo), picos });
  }
  return text;
}

function textOfCharge(model: string, properties: JsonObject): string {
  return `${model} ${JSON.stringify(properties)}`.slice(0, LONGEST_TEXT);
}
