import type { Charge, PriceBook } from '../../model/price-book.ts';
import { amountText } from '../../pricing/amount.ts';
import { type PriceThere, pricesOn, usagePlace } from '../../pricing/compare.ts';
import { plainCharge, sameCharge } from '../../pricing/same-charge.ts';
import { decimalFromNanos } from '../../model/decimal.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { ApiFailure, ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, textOf } from '../json.ts';
import type { ManagedOutcome, MeantBook, PricesQuery } from '../prices.ts';
import { listBillableMetrics } from './billable-metrics.ts';
import {
  type Billing,
  type CardPricesOptions,
  priceInstead,
  placesOf,
  productsOf,
  rateThere,
  whyImpossible,
} from './card-prices.ts';
import type { BillableMetric } from './metric-definition.ts';
import { listProducts, type Product } from './products.ts';
import { CARD_MARK, DEFAULT_UNIT, type RateCard } from './rate-cards.ts';

const DAY_MS = 86_400_000;
/** Rates are on the card so long before they begin. */
const AHEAD_DAYS = 30;
/** How far back they are added: drafts follow, and no invoice that is final does. */
const BEHIND_DAYS = 62;
/** Rates in one call. */
const MAX_RATES = 100;
const CARDS = '/v1/contract-pricing/rate-cards';

/** What is collected on the way. */
interface Told {
  readonly changes: string[];
  readonly failures: string[];
}

/**
 * Keeps the rates of the books on their cards (docs/destinations/metronome.md#prices-kept-by-meterfeed). A rate says
 * from when it holds, and takes the place of the one before: nothing is ever deleted.
 */
export async function manageRates(
  options: CardPricesOptions,
  query: PricesQuery,
  signal: AbortSignal,
): Promise<ManagedOutcome> {
  const told: Told = { changes: [], failures: [] };
  const billing = await ensureProducts(options, query, told, signal);
  if (!(billing instanceof Map)) return { kind: 'failed', reason: billing.reason };
  const done = new Set<string>();
  for (const meant of query.books.toSorted((a, b) => Number(b.isDefault) - Number(a.isDefault))) {
    const reference = meant.isDefault ? (options.rateCard ?? meant.book.name) : meant.book.name;
    if (done.has(reference)) continue;
    done.add(reference);
    const card = await ensureCard(options, reference, meant.book, told, signal);
    if (card === undefined) continue;
    if ('reason' in card) return { kind: 'failed', reason: card.reason };
    const task = { meant, reference, card, billing, day: query.day };
    const trouble = await writeRates(options, task, told, signal);
    if (trouble !== undefined) return { kind: 'failed', reason: trouble.reason };
  }
  return { kind: 'managed', ...told };
}

/** A product for each metric of the books that none bills, with the keys that their prices depend on. */
async function ensureProducts(
  { client, now }: CardPricesOptions,
  { books, metrics }: PricesQuery,
  told: Told,
  signal: AbortSignal,
): Promise<Map<string, readonly Product[]> | ApiProblem> {
  const listed = await listBillableMetrics(client, signal);
  if (listed.kind !== 'listed') return listed;
  const products = await listProducts(client, signal);
  if (products.kind !== 'products') return products;
  const billing = productsOf(products.products, listed.metrics, metrics, now);
  const prices = books.flatMap(({ book }) => book.prices);
  for (const code of new Set(prices.map(({ metric }) => metric))) {
    if ((billing.get(code)?.length ?? 0) > 0) continue;
    const wanted = prices.filter(({ metric }) => metric === code);
    const keys = [...new Set(wanted.flatMap(({ match }) => Object.keys(match)))].toSorted();
    const creation = productCreation(listed.metrics, code, keys);
    if (creation === undefined) {
      told.failures.push(`metric "${code}" has no group key with ${keys.join(', ')}`);
      continue;
    }
    const answer = await client.create('/v1/contract-pricing/products/create', creation, signal);
    if (answer.kind === 'refused') told.failures.push(`product of "${code}": ${answer.reason}`);
    else if (answer.kind !== 'ok') return answer;
    else told.changes.push(`made product "${creation.name}" of metric "${code}"`);
  }
  if (told.changes.length === 0) return new Map(billing);
  const again = await listProducts(client, signal);
  if (again.kind !== 'products') return again;
  return new Map(productsOf(again.products, listed.metrics, metrics, now));
}

function productCreation(
  metrics: readonly BillableMetric[],
  code: string,
  keys: readonly string[],
) {
  const suffix = ` [${code}]`;
  const metric = metrics.find((one) => one.name.endsWith(suffix) && one.sumsAllOf(code));
  const compound = metric?.compoundKeys.find((own) => keys.every((key) => own.includes(key)));
  if (metric === undefined || compound === undefined) return undefined;
  const others = compound.filter((key) => !keys.includes(key));
  return {
    name: metric.name.slice(0, -suffix.length),
    type: 'USAGE',
    billable_metric_id: metric.id,
    ...(keys.length > 0 && { pricing_group_key: keys }),
    ...(others.length > 0 && { presentation_group_key: others }),
  };
}

/** The card of a book, which is made where there is none; undefined where it cannot be. */
async function ensureCard(
  { client, rateCards }: CardPricesOptions,
  reference: string,
  { currency }: PriceBook,
  told: Told,
  signal: AbortSignal,
): Promise<RateCard | ApiProblem | undefined> {
  const found = await rateCards.find(reference, signal);
  if (found.kind === 'card') return found.card;
  if (found.kind !== 'missing') return found;
  const types = await client.list('/v1/credit-types/list', undefined, signal);
  if (types.kind !== 'list') return types;
  const unit = types.items.find(
    (type) => textOf(type, 'name') === currency || textOf(type, 'name')?.startsWith(`${currency} `),
  );
  if (unit === undefined) {
    told.failures.push(`rate card "${reference}": the account has no currency ${currency}`);
    return undefined;
  }
  const card = {
    name: reference,
    aliases: [{ name: reference }],
    description: `${CARD_MARK}: the prices of its PriceBook`,
    ...(textOf(unit, 'name') !== DEFAULT_UNIT && { fiat_credit_type_id: textOf(unit, 'id') }),
  };
  const answer = await client.create(`${CARDS}/create`, card, signal);
  if (answer.kind === 'refused') {
    told.failures.push(`rate card "${reference}": ${answer.reason}`);
    return undefined;
  }
  if (answer.kind !== 'ok') return answer;
  told.changes.push(`made rate card "${reference}"`);
  rateCards.forget();
  const again = await rateCards.find(reference, signal);
  if (again.kind === 'card') return again.card;
  return again.kind === 'missing' ? { kind: 'retry', reason: 'the card is not listed yet' } : again;
}

interface CardTask {
  readonly meant: MeantBook;
  readonly reference: string;
  readonly card: RateCard;
  readonly billing: Billing;
  readonly day: string;
}

async function writeRates(
  { client }: CardPricesOptions,
  { meant, reference, card, billing, day }: CardTask,
  told: Told,
  signal: AbortSignal,
): Promise<ApiFailure | undefined> {
  const { book } = meant;
  const wanted = new Map<string, JsonObject>();
  const coming = new Map<string, StandingRate>();
  for (const moment of momentsOf(book, day)) {
    const body = { rate_card_id: card.id, at: `${moment}T00:00:00.000Z` };
    const list = await client.list(`${CARDS}/getRates`, body, signal);
    if (list.kind === 'refused') told.failures.push(`rates of "${reference}": ${list.reason}`);
    if (list.kind !== 'list') return list.kind === 'refused' ? undefined : list;
    const there = Map.groupBy(
      list.items.flatMap((rate) => standingRates(rate, card, billing)),
      ({ place }) => place,
    );
    for (const rate of ratesOf(book, moment)) {
      const [product] = billing.get(rate.metric) ?? [];
      if (product === undefined || whyImpossible(book, rate, card, product) !== undefined) continue;
      const place = usagePlace(rate.metric, rate.match);
      const [listed] = there.get(place) ?? [];
      const standing = laterOf(listed, coming.get(place));
      // What somebody else has set on a card of their own stays.
      const isFree = listed === undefined || listed.isUnset === true;
      if (isAsWanted(rate.charge, standing) || !(card.isOurs || isFree)) continue;
      const added = rateCreation(card, product, rate);
      wanted.set(JSON.stringify([product.id, rate.match, rate.from]), added);
      coming.set(place, asStanding(place, rate));
    }
  }
  const all = [...wanted.values()];
  for (let start = 0; start < all.length; start += MAX_RATES) {
    const rates = all.slice(start, start + MAX_RATES);
    // May be said twice: the same rate of the same moment takes the place of itself.
    const answer = await client.post(`${CARDS}/addRates`, { rate_card_id: card.id, rates }, signal);
    if (answer.kind === 'refused') told.failures.push(`rates of "${reference}": ${answer.reason}`);
    else if (answer.kind !== 'ok') return answer;
    else told.changes.push(`added ${rates.length} rates to rate card "${reference}"`);
  }
  return undefined;
}

/** A rate that holds at a moment, and since when; milliseconds since the epoch. */
interface StandingRate extends PriceThere {
  readonly from: number;
}

function standingRates(
  rate: JsonObject,
  card: RateCard,
  billing: Billing,
): readonly StandingRate[] {
  const from = Date.parse(textOf(rate, 'starting_at') ?? '') || 0;
  return rateThere(rate, card, billing).map((there) => ({ ...there, from }));
}

/** A rate as it stands once it is added. */
function asStanding(place: string, { charge, from }: DatedRate): StandingRate {
  const since = { place, id: '', from: Date.parse(from) };
  return charge === undefined
    ? { ...since, charge: 'withdrawn', isUnset: true }
    : { ...since, charge };
}

/** Of a rate that is listed and one that is about to be added the one that takes the other's place. */
function laterOf(
  listed: StandingRate | undefined,
  coming: StandingRate | undefined,
): StandingRate | undefined {
  if (listed === undefined || coming === undefined) return listed ?? coming;
  return coming.from >= listed.from ? coming : listed;
}

/** A price of a book as of a day, and since when. */
interface DatedRate {
  readonly metric: string;
  readonly match: Readonly<Record<string, string>>;
  readonly from: string;
  /** Absent where it is withdrawn. */
  readonly charge?: Charge;
}

function ratesOf(book: PriceBook, day: string): readonly DatedRate[] {
  const begun = new Map(book.prices.map(({ name, rates }) => [name, rates]));
  const since = (name: string): string =>
    begun.get(name)?.findLast((rate) => rate.from <= day)?.from ?? day;
  return pricesOn(book, day).map(({ name, metric, match, charge: own }) => {
    const other = own === undefined ? priceInstead(book, { metric, match }, day) : undefined;
    const from = [since(name), ...(other === undefined ? [] : [since(other.name)])]
      .toSorted()
      .at(-1);
    return { metric, match, from: from ?? day, ...omitUndefined({ charge: own ?? other?.charge }) };
  });
}

/** The days on which rates of a book begin, from the one before what may still be invoiced on. */
function momentsOf({ prices }: PriceBook, day: string): readonly string[] {
  const first = dayFrom(day, -BEHIND_DAYS);
  const last = dayFrom(day, AHEAD_DAYS);
  const starts = prices.flatMap(({ rates }) => rates.map(({ from }) => from));
  const within = starts.filter((from) => from > first && from <= last);
  return [...new Set([first, ...within])].toSorted();
}

function dayFrom(day: string, days: number): string {
  return new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);
}

function isAsWanted(charge: Charge | undefined, standing: PriceThere | undefined): boolean {
  const isFree = standing === undefined || standing.isUnset === true;
  if (charge === undefined || isFree) return charge === undefined && isFree;
  return typeof standing.charge !== 'string' && sameCharge(charge, standing.charge);
}

function rateCreation(card: RateCard, product: Product, { match, from, charge }: DatedRate) {
  return {
    product_id: product.id,
    starting_at: `${from}T00:00:00.000Z`,
    entitled: charge !== undefined,
    ...(Object.keys(match).length > 0 && { pricing_group_values: match }),
    ...rateFields(charge ?? { kind: 'flat', picos: 0n, includedNanos: 0n }, placesOf(card.unit)),
  };
}

function rateFields(charge: Charge, places: number): JsonObject {
  const plain = plainCharge(charge);
  const price = (picos: bigint): number => Number(amountText(picos * 10n ** BigInt(places)));
  if (plain.kind === 'flat') return { rate_type: 'FLAT', price: price(plain.picos) };
  const sizes = plain.tiers.map(({ upToNanos, picos }, index) => ({
    price: price(picos),
    size: Number(decimalFromNanos(upToNanos - (plain.tiers[index - 1]?.upToNanos ?? 0n))),
  }));
  return { rate_type: 'TIERED', tiers: [...sizes, { price: price(plain.beyondPicos) }] };
}
