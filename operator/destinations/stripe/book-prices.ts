import { CLOSED_DIMENSIONS } from '../../model/event-schema.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { dependsOnMonth } from '../../model/pricing/charges.ts';
import {
  type PriceOnDay,
  pricesOn,
  usagePlace,
  type WantedPrice,
} from '../../model/pricing/compare.ts';
import { plainCharge } from '../../model/pricing/same-charge.ts';
import { meterNameOf, normalized, splitSegments } from './meters.ts';

const WHOLE_UNIT = 1_000_000_000n;
const CLOSED: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(CLOSED_DIMENSIONS).map(([key, values]) => [key, values.map(normalized)]),
);

/**
 * What the prices of a book come to at meters (docs/how-to/destinations/stripe.md#prices-of-a-pricebook): each meter has the price that holds for
 * the usage that it counts, and a price that holds for no meter yet has one of its own.
 */
export function wantedAtMeters(
  book: PriceBook,
  day: string,
  {
    splitBy,
    metersOf,
  }: {
    readonly splitBy: readonly string[];
    /** Event names of the account's meters, by the metric that they count. */
    readonly metersOf: (metric: string) => readonly string[];
  },
): readonly WantedPrice[] {
  const byMetric = Map.groupBy(pricesOn(book, day), ({ metric }) => metric);
  return [...byMetric].flatMap(([metric, prices]) => {
    const unsplit = prices.filter(({ match }) => keysBeyond(match, splitBy).length > 0);
    const reported = prices.filter((price) => !unsplit.includes(price));
    const own = reported.map(({ match }) => meterNameOf(metric, match, splitBy));
    const meters = [...new Set([...own, ...metersOf(metric)])];
    const wanted = meters.flatMap((meter) => priceOfMeter(meter, metric, reported, splitBy));
    const used = Map.groupBy(wanted, ({ price }) => price);
    return [
      ...wanted.map((one) => {
        const count = used.get(one.price)?.length ?? 0;
        const impossible = one.impossible ?? whyImpossible(one, count);
        return { ...one, impossible };
      }),
      ...unsplit.flatMap((price) => unsplitPrice(price, splitBy)),
    ];
  });
}

function keysBeyond(match: PriceOnDay['match'], splitBy: readonly string[]): readonly string[] {
  return Object.keys(match).filter((key) => !splitBy.includes(key));
}

/** A price that depends on what meters are not split by; nothing where it is withdrawn. */
function unsplitPrice(
  { name, metric, match, charge }: PriceOnDay,
  splitBy: readonly string[],
): readonly WantedPrice[] {
  if (charge === undefined) return [];
  const [beyond] = keysBeyond(match, splitBy);
  const impossible = `meters are not split by ${beyond}: add it to splitMetersBy`;
  return [{ place: usagePlace(metric, match), price: name, charge, impossible }];
}

/** The price that holds for what a meter counts; nothing where none does. */
function priceOfMeter(
  meter: string,
  metric: string,
  prices: readonly PriceOnDay[],
  splitBy: readonly string[],
): readonly WantedPrice[] {
  const readings = readingsOf(meter, metric, splitBy);
  if (readings === undefined) {
    const [exact] = prices.filter(({ match }) => meterNameOf(metric, match, splitBy) === meter);
    return exact === undefined ? [] : [wantedAt(meter, exact)];
  }
  const holding = new Set(readings.flatMap((values) => holdingPrices(prices, values)));
  const none = readings.some((values) => holdingPrices(prices, values).length === 0);
  const [first, second] = [...holding];
  if (first === undefined) return [];
  if (second === undefined && !none) return [wantedAt(meter, first)];
  const names = [...holding].map(({ name }) => `"${name}"`).join(', ');
  const impossible = `the name of the meter does not tell whether ${names} ${second === undefined ? 'holds' : 'hold'} for its usage`;
  return [{ ...wantedAt(meter, first), impossible }];
}

function wantedAt(place: string, { name, charge }: PriceOnDay): WantedPrice {
  return { place, price: name, charge };
}

/** The most specific prices for values as meter names have them; one that is withdrawn only where no other holds. */
function holdingPrices(
  prices: readonly PriceOnDay[],
  values: ReadonlyMap<string, string>,
): readonly PriceOnDay[] {
  const matching = prices.filter(({ match }) =>
    Object.entries(match).every(([key, value]) => values.get(key) === normalized(value)),
  );
  const live = matching.filter(({ charge }) => charge !== undefined);
  const held = live.length > 0 ? live : matching;
  const most = Math.max(...held.map(({ match }) => Object.keys(match).length));
  return held.filter(({ match }) => Object.keys(match).length === most);
}

/**
 * What the parts of a meter's name may stand for: fields that usage lacks are left out of it, so that a part may be the
 * value of one field or of the next. Undefined where the name was too long and is cut off.
 */
function readingsOf(
  meter: string,
  metric: string,
  splitBy: readonly string[],
): readonly ReadonlyMap<string, string>[] | undefined {
  const segments = splitSegments(meter, metric);
  if (segments === undefined) return undefined;
  return assignments(segments, splitBy);
}

/** Whether a meter of a metric can be named so by the split in force; others get no usage any more. */
export function isOfSplit(meter: string, metric: string, splitBy: readonly string[]): boolean {
  return readingsOf(meter, metric, splitBy)?.length !== 0;
}

function assignments(
  [first, ...rest]: readonly string[],
  fields: readonly string[],
): readonly ReadonlyMap<string, string>[] {
  if (first === undefined) return [new Map()];
  return fields.flatMap((field, index) => {
    if (CLOSED.get(field)?.includes(first) === false) return [];
    return assignments(rest, fields.slice(index + 1)).map(
      (others) => new Map([[field, first], ...others]),
    );
  });
}

/** Why a meter cannot have a price, which holds for `count` meters; undefined where it can. */
function whyImpossible({ charge }: WantedPrice, count: number): string | undefined {
  if (charge === undefined) return undefined;
  const plain = plainCharge(charge);
  if (plain.kind === 'flat') return undefined;
  if (plain.includedNanos > 0n) return 'Stripe has no included quantity beside volume tiers';
  if (plain.tiers.some(({ upToNanos }) => upToNanos % WHOLE_UNIT > 0n)) {
    return 'Stripe’s tiers end at whole units';
  }
  if (count < 2 || !dependsOnMonth(charge)) return undefined;
  return `its tiers count all usage together, and at Stripe that of each of ${count} meters by itself`;
}
