import { nanosFromDecimal, parseDecimal } from '../../model/decimal.ts';
import type { PriceCharge, PriceBook } from '../../model/price-book.ts';
import { parseAmount } from '../../model/pricing/amount.ts';
import {
  comparePrices,
  type PriceOnDay,
  type PriceThere,
  pricesOn,
  usagePlace,
  type WantedPrice,
  wantedByUsage,
} from '../../model/pricing/compare.ts';
import { plainCharge, sameCharge } from '../../model/pricing/same-charge.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import type { ComparedBook, MeantBook, PricesOutcome, PricesQuery } from '../prices.ts';
import { countsAllOf, listBillableMetrics } from './billable-metrics.ts';
import type { BillableMetric } from './metric-definition.ts';
import type { MetronomeClient } from './metronome-client.ts';
import { listProducts, metricAt, type Product } from './products.ts';
import type { RateCard, RateCards } from './rate-cards.ts';

const CENTS = '(cents)';
const LONGEST_TEXT = 200;
/** A JSON number has this many exact decimal digits. */
const MAX_DIGITS = 15;

interface CardPricesOptions {
  readonly client: MetronomeClient;
  readonly rateCards: RateCards;
  /** The rate card of tenants that name no plan; absent where they get no contract. */
  readonly rateCard: string | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Compares price books with the rates of their cards
 * (docs/how-to/destinations/metronome.md#prices-of-a-pricebook).
 */
export async function pricesAtMetronome(
  options: CardPricesOptions,
  { books, metrics, day }: PricesQuery,
  signal: AbortSignal,
): Promise<PricesOutcome> {
  const { client, now } = options;
  const products = await listProducts(client, signal);
  if (products.kind !== 'products') return { kind: 'failed', reason: products.reason };
  const listed = await listBillableMetrics(client, signal);
  if (listed.kind !== 'listed') return { kind: 'failed', reason: listed.reason };
  // Today's rates are those in force now; another day's are those in force when it begins.
  const isToday = new Date(now).toISOString().startsWith(day);
  const at = isToday ? now : Date.parse(day);
  const billing = productsOf(products.products, listed.metrics, metrics, at);
  const compared: ComparedBook[] = [];
  for (const meant of books) {
    const outcome = await compareBook(options, meant, { billing, at, day }, signal);
    if ('reason' in outcome) return { kind: 'failed', reason: outcome.reason };
    compared.push(outcome);
  }
  return { kind: 'compared', books: compared };
}

async function compareBook(
  { client, rateCards, rateCard }: CardPricesOptions,
  { book, isDefault }: MeantBook,
  {
    billing,
    at,
    day,
  }: { readonly billing: ProductsByMetric; readonly at: number; readonly day: string },
  signal: AbortSignal,
): Promise<ComparedBook | ApiProblem> {
  const plan = isDefault ? (rateCard ?? book.name) : book.name;
  const found = await rateCards.find(plan, signal);
  if (found.kind !== 'card' && found.kind !== 'missing') return found;
  const card = found.kind === 'card' ? found.card : undefined;
  const wanted = wantedByUsage(book, day, (price) =>
    whyImpossible(book, price, card, billing.get(price.metric)?.[0]),
  );
  const own = { book: book.name, currency: book.currency, plan };
  if (card === undefined) return { ...own, exists: false, differences: comparePrices(wanted, []) };
  const body = { rate_card_id: card.id, at: new Date(at).toISOString() };
  const list = await client.list('/v1/contract-pricing/rate-cards/getRates', body, signal);
  if (list.kind !== 'list') return list;
  const there = list.items.flatMap((rate) => rateThere(rate, card, billing));
  const prices = new Map(book.prices.map((price) => [price.name, price]));
  const followed = wanted.map((one): WantedPrice => {
    const price = prices.get(one.price);
    if (one.charge !== undefined || price === undefined) return one;
    const instead = priceInstead(book, price, day)?.charge;
    const isFollowed = there.some(
      ({ place, charge }) =>
        place === one.place &&
        instead !== undefined &&
        typeof charge !== 'string' &&
        sameCharge(charge, instead),
    );
    return instead !== undefined && isFollowed ? { ...one, charge: instead } : one;
  });
  return { ...own, exists: true, differences: comparePrices(followed, there) };
}

/** Returns the less specific price of a day on which a price is withdrawn, or undefined. */
function priceInstead(
  book: PriceBook,
  withdrawn: Pick<PriceOnDay, 'metric' | 'match'>,
  day: string,
): PriceOnDay | undefined {
  return pricesOn(book, day)
    .filter(
      ({ metric, match, charge }) =>
        charge !== undefined &&
        metric === withdrawn.metric &&
        Object.entries(match).every(([key, value]) => withdrawn.match[key] === value),
    )
    .toSorted((a, b) => Object.keys(b.match).length - Object.keys(a.match).length)
    .at(0);
}

/** The products that bill each metric, by its code. */
type ProductsByMetric = ReadonlyMap<string, readonly Product[]>;

function productsOf(
  products: readonly Product[],
  metrics: readonly BillableMetric[],
  codes: ReadonlySet<string>,
  at: number,
): ProductsByMetric {
  return new Map(
    [...codes].map((code) => {
      const ids = new Set(metrics.filter((one) => countsAllOf(one, code)).map(({ id }) => id));
      return [code, products.filter((product) => ids.has(metricAt(product, at) ?? ''))];
    }),
  );
}

/** Returns why a rate card cannot have a price; undefined where it can. */
function whyImpossible(
  { currency }: Pick<PriceBook, 'currency'>,
  { match, charge }: Pick<PriceOnDay, 'match' | 'charge'>,
  card: RateCard | undefined,
  product: Product | undefined,
): string | undefined {
  if (charge === undefined) return undefined;
  if (card !== undefined && card.currency !== currency) {
    return `the rate card is priced in ${card.currency ?? 'an unknown currency'}`;
  }
  const beyond = product && Object.keys(match).find((key) => !product.pricingKeys.includes(key));
  if (beyond !== undefined)
    return `product "${product?.name}" has no pricing group key "${beyond}"`;
  const plain = plainCharge(charge);
  if (plain.kind === 'volume') return 'Metronome has no volume tiers';
  const amounts =
    plain.kind === 'flat'
      ? [plain.picos]
      : [plain.beyondPicos, ...plain.tiers.map(({ picos }) => picos)];
  const digits = (picos: bigint): number => picos.toString().replace(/0+$/, '').length;
  return amounts.some((picos) => digits(picos) > MAX_DIGITS)
    ? 'Metronome’s amounts are numbers of 15 digits'
    : undefined;
}

/** Returns the price of a rate; none for a product that bills no metric of ours. */
function rateThere(
  object: JsonObject,
  card: RateCard,
  billing: ProductsByMetric,
): readonly PriceThere[] {
  const id = textOf(object, 'product_id') ?? '';
  for (const [metric, products] of billing) {
    const index = products.findIndex((product) => product.id === id);
    const product = products[index];
    if (product === undefined) continue;
    const values = Object.entries(objectOf(object, 'pricing_group_values'));
    const match = Object.fromEntries(values.map(([key, value]) => [key, String(value)]));
    const place = usagePlace(metric, match);
    // Every product bills all usage of its metric: a second one bills it twice.
    const reported = index === 0 ? place : `${place} by product "${product.name}"`;
    const charge = product.converts ?? readCharge(object, card);
    // A rate without entitlement bills nothing: that is how people end a rate.
    const isUnset = object['entitled'] === true ? {} : { isUnset: true as const };
    return [{ place: reported, id, charge, ...isUnset }];
  }
  return [];
}

/** Returns the charge of a rate; text where a price book cannot have it. */
export function readCharge(
  object: JsonObject,
  card: Pick<RateCard, 'currency'>,
): PriceCharge | string {
  const rate = objectOf(object, 'rate');
  const type = textOf(rate, 'rate_type') ?? '';
  const text = `${type} ${JSON.stringify(rate)}`.slice(0, LONGEST_TEXT);
  if (object['entitled'] !== true) return `not entitled: ${text}`;
  const unit = textOf(objectOf(rate, 'credit_type'), 'name') ?? `USD ${CENTS}`;
  if (!unit.startsWith(card.currency ?? '?')) return `in ${unit}: ${text}`;
  const places = placesOf(unit);
  if (type === 'FLAT') {
    const picos = picosOf(rate['price'], places);
    return picos === undefined ? text : { kind: 'flat', picos, includedNanos: 0n };
  }
  if (type !== 'TIERED') return text;
  const tiers: { readonly upToNanos: bigint; readonly picos: bigint }[] = [];
  let upToNanos = 0n;
  for (const tier of objectsOf(rate, 'tiers')) {
    const picos = picosOf(tier['price'], places);
    const { size } = tier;
    if (picos === undefined) return text;
    if (size === undefined || size === null) {
      return { kind: 'graduated', tiers, beyondPicos: picos, includedNanos: 0n };
    }
    const nanos = parseDecimal(plainText(size));
    if (nanos === undefined) return text;
    upToNanos += nanosFromDecimal(nanos);
    tiers.push({ upToNanos, picos });
  }
  return text;
}

/** Returns by how many decimals a unit is smaller than the currency's: 2 for `USD (cents)`. */
function placesOf(unit: string): number {
  return unit.includes(CENTS) ? 2 : 0;
}

/**
 * Returns a JSON number in pico-units of the main currency unit. With `places` 2 the number is in
 * hundredths of that unit.
 */
function picosOf(value: unknown, places: number): bigint | undefined {
  const picos = parseAmount(plainText(value));
  const scale = 10n ** BigInt(places);
  return picos === undefined || picos % scale > 0n ? undefined : picos / scale;
}

/** Returns a number as plain decimal text; JavaScript may write it with an exponent. */
function plainText(value: unknown): string {
  if (typeof value !== 'number') return '';
  const text = String(value);
  return text.includes('e-') ? value.toFixed(20).replace(/0+$/, '') : text;
}
