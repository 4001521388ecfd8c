import type { PriceCharge, PriceBook } from '../../model/price-book.ts';
import { comparePrices, type PriceThere } from '../../model/pricing/compare.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import { decimalsOf } from '../late.ts';
import type { ComparedBook, PricesOutcome, PricesQuery } from '../prices.ts';
import { isOfSplit, wantedAtMeters } from './book-prices.ts';
import { isMeterOf, StripeMeters } from './meters.ts';
import { PLAN_KEY, readPrice } from './prices.ts';
import type { StripeSettings } from './settings.ts';
import type { StripeClient } from './stripe-client.ts';

const PICO_PLACES = 12;
const NANOS_PER_UNIT = 1_000_000_000n;
const LONGEST_TEXT = 200;

/**
 * Compares price books with the prices of their plans at Stripe
 * (docs/how-to/destinations/stripe.md#prices-of-a-pricebook).
 */
export async function pricesAtStripe(
  {
    client,
    settings,
    meters,
  }: {
    readonly client: StripeClient;
    readonly settings: Pick<StripeSettings, 'splitMetersBy' | 'planCode'>;
    /** A list of meters for this comparison only. */
    readonly meters: StripeMeters;
  },
  { books, metrics, day }: PricesQuery,
  signal: AbortSignal,
): Promise<PricesOutcome> {
  const failed = await meters.load(signal);
  if (failed !== undefined) return { kind: 'failed', reason: failed.reason };
  const filter = {
    active: true,
    type: 'recurring',
    recurring: { usage_type: 'metered' },
    expand: ['data.currency_options', 'data.tiers'],
  };
  const list = await client.list('/v1/prices', filter, signal);
  if (list.kind !== 'list') return { kind: 'failed', reason: list.reason };
  const { splitMetersBy: splitBy, planCode } = settings;
  const own = metersOfSplit(meters, metrics, splitBy);
  const newestFirst = list.items.toSorted((a, b) => Number(b['created']) - Number(a['created']));
  const metersOf = (metric: string): readonly string[] =>
    [...own.values()].flatMap((meter) => (meter.metric === metric ? [meter.eventName] : []));
  const compared = books.map(({ book, isDefault }): ComparedBook => {
    const plan = isDefault ? planCode : book.name;
    const tagged = newestFirst.filter(
      (price) => textOf(objectOf(price, 'metadata'), PLAN_KEY) === plan,
    );
    const there = tagged.flatMap((price) => priceThere(price, book, own));
    const differences = comparePrices(wantedAtMeters(book, day, { splitBy, metersOf }), there);
    const exists = tagged.length > 0;
    return { book: book.name, currency: book.currency, plan, exists, differences };
  });
  return { kind: 'compared', books: compared };
}

interface MeterOfSplit {
  readonly eventName: string;
  readonly metric: string;
}

/** Returns the active meters of the current split that count the metrics, by id. */
function metersOfSplit(
  meters: StripeMeters,
  metrics: ReadonlySet<string>,
  splitBy: readonly string[],
): ReadonlyMap<string, MeterOfSplit> {
  const longestFirst = [...metrics].toSorted((a, b) => b.length - a.length);
  return new Map(
    meters.all().flatMap(({ id, eventName, active }) => {
      const metric = longestFirst.find((code) => isMeterOf(eventName, code));
      const isOurs = active && metric !== undefined && isOfSplit(eventName, metric, splitBy);
      return isOurs ? [[id, { eventName, metric }] as const] : [];
    }),
  );
}

function priceThere(
  object: JsonObject,
  { currency }: PriceBook,
  meters: ReadonlyMap<string, MeterOfSplit>,
): readonly PriceThere[] {
  const price = readPrice(object);
  const place = meters.get(price?.meter ?? '')?.eventName;
  if (price === undefined || place === undefined) return [];
  if (!price.currencies.includes(currency)) {
    return [{ place, id: price.id, charge: `an amount in ${price.currencies.join(', ')}` }];
  }
  const option = objectOf(objectOf(object, 'currency_options'), currency.toLowerCase());
  const amounts = price.currency === currency ? object : option;
  const isMonthly = price.interval === 'month';
  const charge = readStripeCharge({ ...object, ...amounts }, currency);
  const dependsOnMonth = typeof charge !== 'string' && charge.kind !== 'flat';
  const reported = dependsOnMonth && !isMonthly ? `tiers by the ${price.interval}` : charge;
  return [{ place, id: price.id, charge: reported }];
}

/** Returns the charge of a price with expanded tiers; text where a price book cannot have it. */
export function readStripeCharge(price: JsonObject, currency: string): PriceCharge | string {
  const transform = price['transform_quantity'];
  if (transform !== null && transform !== undefined) {
    return `transform_quantity ${JSON.stringify(transform)}`.slice(0, LONGEST_TEXT);
  }
  if (textOf(price, 'billing_scheme') !== 'tiered') {
    const text = textOf(price, 'unit_amount_decimal');
    const picos = text === undefined ? undefined : picosOfMinor(text, currency);
    return picos === undefined
      ? `unit_amount_decimal ${text ?? 'none'}`
      : { kind: 'flat', picos, includedNanos: 0n };
  }
  const kind = textOf(price, 'tiers_mode') === 'volume' ? 'volume' : 'graduated';
  const tiers: { readonly upToNanos: bigint; readonly picos: bigint }[] = [];
  for (const tier of objectsOf(price, 'tiers')) {
    const picos = picosOfMinor(textOf(tier, 'unit_amount_decimal') ?? '0', currency);
    const flat = picosOfMinor(textOf(tier, 'flat_amount_decimal') ?? '0', currency);
    const upTo = tier['up_to'];
    if (picos === undefined || flat !== 0n) break;
    if (upTo === null) return { kind, tiers, beyondPicos: picos, includedNanos: 0n };
    if (typeof upTo !== 'number' || !Number.isSafeInteger(upTo)) break;
    tiers.push({ upToNanos: BigInt(upTo) * NANOS_PER_UNIT, picos });
  }
  return `${kind} ${JSON.stringify(price['tiers'] ?? [])}`.slice(0, LONGEST_TEXT);
}

/** Returns an amount in a currency's smallest unit as pico-units; undefined if that is inexact. */
function picosOfMinor(text: string, currency: string): bigint | undefined {
  const match = /^(\d+)(?:\.(\d{1,12}))?$/.exec(text);
  if (match === null) return undefined;
  const [, integer = '', fraction = ''] = match;
  const parts = BigInt(integer + fraction.padEnd(PICO_PLACES, '0'));
  const scale = 10n ** BigInt(decimalsOf(currency));
  return parts % scale === 0n ? parts / scale : undefined;
}
