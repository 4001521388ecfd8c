import { createHash } from 'node:crypto';
import type { Charge, Price, PriceBook } from '../../model/price-book.ts';
import { amountText } from '../../pricing/amount.ts';
import type { WantedPrice } from '../../pricing/compare.ts';
import { plainCharge, sameCharge } from '../../pricing/same-charge.ts';
import type { ApiAnswer, ApiFailure, ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import { decimalsOf } from '../late.ts';
import type { ManagedOutcome, PricesQuery } from '../prices.ts';
import { wantedAtMeters } from './book-prices.ts';
import { isMeterOf, type StripeMeters } from './meters.ts';
import { FROM_KEY, PLAN_KEY, PRICE_KEY, readPrice, UNTIL_KEY } from './prices.ts';
import type { Params } from './stripe-client.ts';
import {
  listTagged,
  type PricesAtMeters,
  readStripeCharge,
  type TaggedPricesOptions,
} from './tagged-prices.ts';

const PRICES = '/v1/prices';
const DAY_MS = 86_400_000;
const UNIT_NANOS = 1_000_000_000n;

export interface ManagePricesOptions extends TaggedPricesOptions {
  /** The meters that usage goes to: those of prices are made here where usage has not made them yet. */
  readonly delivering: Pick<StripeMeters, 'ensure'>;
  readonly metricName: (code: string) => string;
}

interface Told {
  readonly changes: string[];
  readonly failures: string[];
}

/**
 * Keeps the prices of the books at their meters (docs/destinations/stripe.md#prices-kept-by-meterfeed). A price never
 * changes: another one is made a day before it holds, and the old one is archived when it no longer does; one that no other
 * follows says a day before until when it holds. Subscriptions follow by themselves, as with any other change of prices. A meter that somebody else has put a price of the plan on is left to it.
 */
export async function managePricesAtStripe(
  options: ManagePricesOptions,
  query: PricesQuery,
  signal: AbortSignal,
): Promise<ManagedOutcome> {
  const told: Told = { changes: [], failures: [] };
  const listed = await listTagged(options, query, signal);
  if ('reason' in listed) return { kind: 'failed', reason: listed.reason };
  const done = new Set<string>();
  for (const meant of query.books.toSorted((a, b) => Number(b.isDefault) - Number(a.isDefault))) {
    const plan = meant.isDefault ? options.settings.planCode : meant.book.name;
    if (done.has(plan)) continue;
    done.add(plan);
    const { book } = meant;
    const wanted = wantedOf(book, query.day, options, listed);
    for (const [meter, prices] of Map.groupBy(wanted, ({ place }) => place)) {
      const task = { book, plan, meter, prices, listed };
      const trouble = await keepMeter(options, task, told, signal);
      if (trouble !== undefined) return { kind: 'failed', reason: trouble.reason };
    }
  }
  return { kind: 'managed', ...told };
}

/** A price that a meter ought to have on a day; without a charge, none. */
interface DatedPrice {
  readonly place: string;
  readonly price: string;
  readonly charge: Charge | undefined;
  readonly impossible: boolean;
  /** The day from which on it has held without a break. */
  readonly from: string;
  /** The day that it is wanted on. */
  readonly on: string;
}

/** Of the day that runs and of the next one. */
function wantedOf(
  book: PriceBook,
  day: string,
  { settings }: ManagePricesOptions,
  { metersOf }: PricesAtMeters,
): readonly DatedPrice[] {
  const splitBy = settings.splitMetersBy;
  const at = (on: string): ReadonlyMap<string, WantedPrice> =>
    new Map(wantedAtMeters(book, on, { splitBy, metersOf }).map((one) => [one.place, one]));
  const begins = book.prices.flatMap(({ rates }) => rates.map(({ from }) => from));
  return [day, dayAfter(day)].flatMap((on) => {
    const latestFirst = [...new Set(begins.filter((from) => from <= on))].toSorted().toReversed();
    const history = latestFirst.map((from) => [from, at(from)] as const);
    return [...at(on).values()].map(({ place, price, charge, impossible }): DatedPrice => {
      const other = history.findIndex(([, prices]) => !isSame(prices.get(place)?.charge, charge));
      const from = history[other === -1 ? history.length - 1 : other - 1]?.[0] ?? on;
      return { place, price, charge, impossible: impossible !== undefined, from, on };
    });
  });
}

function isSame(a: Charge | undefined, b: Charge | undefined): boolean {
  return a === undefined || b === undefined ? a === b : sameCharge(a, b);
}

function dayAfter(day: string): string {
  return new Date(Date.parse(day) + DAY_MS).toISOString().slice(0, 10);
}

interface MeterTask {
  readonly book: PriceBook;
  readonly plan: string;
  readonly meter: string;
  readonly prices: readonly DatedPrice[];
  readonly listed: PricesAtMeters;
}

async function keepMeter(
  options: ManagePricesOptions,
  task: MeterTask,
  told: Told,
  signal: AbortSignal,
): Promise<ApiFailure | undefined> {
  const { book, plan, meter, prices, listed } = task;
  if (prices.some(({ impossible }) => impossible)) return undefined;
  const there = listed.tagged(plan).filter((price) => listed.meterOf(price) === meter);
  const own = there.filter(isOwn);
  if (own.length < there.length) return undefined;
  const kept = new Set<string>();
  for (const wanted of prices) {
    if (wanted.charge === undefined) continue;
    const fitting = own.find((price) => isThe(price, wanted, book.currency));
    const until = untilOf(wanted, prices);
    if (fitting !== undefined) {
      kept.add(textOf(fitting, 'id') ?? '');
      const trouble = await sayUntil(options, fitting, until, told, signal);
      if (trouble !== undefined) return trouble;
    }
    if (fitting !== undefined || isMade(prices, wanted)) continue;
    const made = { ...wanted, charge: wanted.charge, until };
    const answer = await make(options, task, made, own, signal);
    const trouble = settle(answer, `price of meter "${meter}" for plan "${plan}"`, told);
    if (trouble !== undefined) return trouble;
    if (answer.kind !== 'ok') return undefined;
    told.changes.push(`made a price of meter "${meter}" for plan "${plan}" from ${wanted.from}`);
  }
  for (const price of own) {
    const id = textOf(price, 'id') ?? '';
    if (kept.has(id)) continue;
    const answer = await options.client.update(`${PRICES}/${id}`, { active: false }, signal);
    const trouble = settle(answer, `price ${id} of meter "${meter}"`, told);
    if (trouble !== undefined) return trouble;
    if (answer.kind === 'ok') told.changes.push(`archived price ${id} of meter "${meter}"`);
  }
  return undefined;
}

/** The day from which on no price holds any more; empty where one does on the next day, too. */
function untilOf({ on }: DatedPrice, prices: readonly DatedPrice[]): string {
  const next = prices.find((other) => other.on > on);
  return next !== undefined && next.charge === undefined ? next.on : '';
}

/** Lets a price say until when it holds. */
async function sayUntil(
  { client }: ManagePricesOptions,
  price: JsonObject,
  until: string,
  told: Told,
  signal: AbortSignal,
): Promise<ApiFailure | undefined> {
  const id = textOf(price, 'id') ?? '';
  if ((textOf(objectOf(price, 'metadata'), UNTIL_KEY) ?? '') === until) return undefined;
  const metadata = { [UNTIL_KEY]: until };
  const answer = await client.update(`${PRICES}/${id}`, { metadata }, signal);
  const trouble = settle(answer, `price ${id}`, told);
  if (answer.kind === 'ok') {
    told.changes.push(`price ${id} holds ${until === '' ? 'for good' : `until ${until}`}`);
  }
  return trouble;
}

/** Whether the price of today is that of tomorrow, and was made for today. */
function isMade(prices: readonly DatedPrice[], wanted: DatedPrice): boolean {
  const [first] = prices;
  return first !== wanted && first?.from === wanted.from && isSame(first.charge, wanted.charge);
}

function isOwn(price: JsonObject): boolean {
  return textOf(objectOf(price, 'metadata'), PRICE_KEY) !== undefined;
}

function isThe(object: JsonObject, { charge, from }: DatedPrice, currency: string): boolean {
  const price = readPrice(object);
  const there = readStripeCharge(object, currency);
  return (
    price?.currency === currency &&
    textOf(objectOf(object, 'metadata'), FROM_KEY) === from &&
    typeof there !== 'string' &&
    isSame(there, charge)
  );
}

/** A refusal concerns one thing and is told; anything else ends the attempt. */
function settle(answer: ApiAnswer, what: string, told: Told): ApiFailure | undefined {
  if (answer.kind === 'refused') told.failures.push(`${what}: ${answer.reason}`);
  return answer.kind === 'ok' || answer.kind === 'refused' ? undefined : answer;
}

/**
 * Makes a price, or takes it out of the archive: its lookup key, which is made of all that it is, stands for no other in
 * the account.
 */
async function make(
  options: ManagePricesOptions,
  task: MeterTask,
  wanted: DatedPrice & { readonly charge: Charge; readonly until: string },
  own: readonly JsonObject[],
  signal: AbortSignal,
): Promise<ApiAnswer | ApiProblem> {
  const { client, delivering } = options;
  const { book, plan, meter } = task;
  const price = book.prices.find(({ name }) => name === wanted.price);
  const ensured = await delivering.ensure(meter, displayName(options, meter, price), signal);
  if (ensured.kind !== 'meter') return ensured;
  const key = lookupKey(plan, meter, book.currency, wanted);
  const known = await client.list(PRICES, { lookup_keys: [key] }, signal);
  if (known.kind !== 'list') return known;
  const [archived] = known.items;
  if (archived !== undefined) {
    const change = { active: true, metadata: { [UNTIL_KEY]: wanted.until } };
    return client.update(`${PRICES}/${textOf(archived, 'id') ?? ''}`, change, signal);
  }
  const product = own.map((one) => textOf(one, 'product')).find((id) => id !== undefined);
  const params = {
    currency: book.currency.toLowerCase(),
    ...(product === undefined
      ? { product_data: { name: displayName(options, meter, price) } }
      : { product }),
    nickname: `${wanted.price} from ${wanted.from}`,
    lookup_key: key,
    recurring: { interval: 'month', usage_type: 'metered', meter: ensured.meter.id },
    metadata: {
      [PLAN_KEY]: plan,
      [PRICE_KEY]: wanted.price,
      [FROM_KEY]: wanted.from,
      ...(wanted.until !== '' && { [UNTIL_KEY]: wanted.until }),
    },
    ...amountParams(wanted.charge, book.currency),
  };
  return client.create(PRICES, params, signal);
}

function displayName(
  { metricName }: ManagePricesOptions,
  meter: string,
  price: Price | undefined,
): string {
  if (price === undefined) return meter;
  const values = Object.values(price.match).join(', ');
  const name = metricName(price.metric);
  return isMeterOf(meter, price.metric) && values !== '' ? `${name} (${values})` : name;
}

function lookupKey(
  plan: string,
  meter: string,
  currency: string,
  { from, charge }: { readonly from: string; readonly charge: Charge },
): string {
  const text = JSON.stringify(
    [plan, meter, currency, from, plainCharge(charge)],
    (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
  );
  return `meterfeed_${createHash('sha256').update(text).digest('hex').slice(0, 40)}`;
}

/** A charge in the parameters of a price, amounts in the smallest unit of the currency. */
function amountParams(charge: Charge, currency: string): Params {
  const plain = plainCharge(charge);
  const scale = 10n ** BigInt(decimalsOf(currency));
  const minor = (picos: bigint): string => amountText(picos * scale);
  if (plain.kind === 'flat') return { unit_amount_decimal: minor(plain.picos) };
  return {
    billing_scheme: 'tiered',
    tiers_mode: plain.kind,
    tiers: [
      ...plain.tiers.map(({ upToNanos, picos }) => ({
        up_to: String(upToNanos / UNIT_NANOS),
        unit_amount_decimal: minor(picos),
      })),
      { up_to: 'inf', unit_amount_decimal: minor(plain.beyondPicos) },
    ],
  };
}
