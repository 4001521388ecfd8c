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

const NANOS_PER_UNIT = 1_000_000_000n;
const CLOSED: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(CLOSED_DIMENSIONS).map(([key, values]) => [key, values.map(normalized)]),
);

/**
 * Returns the wanted price of each meter
 * (docs/how-to/destinations/stripe.md#prices-of-a-pricebook). A meter has the price that applies to
 * the usage that it counts. A price without a meter becomes an entry of its own.
 */
export function wantedAtMeters(
  book: PriceBook,
  day: string,
  {
    splitBy,
    metersOf,
  }: {
    readonly splitBy: readonly string[];
    /** Returns event names of the account's meters that count a metric. */
    readonly metersOf: (metric: string) => readonly string[];
  },
): readonly WantedPrice[] {
  const byMetric = Map.groupBy(pricesOn(book, day), ({ metric }) => metric);
  return [...byMetric].flatMap(([metric, prices]) => {
    const unsplit = prices.filter(({ match }) => keysBeyond(match, splitBy).length > 0);
    const atMeters = prices.filter((price) => !unsplit.includes(price));
    const named = atMeters.map(({ match }) => meterNameOf(metric, match, splitBy));
    const meters = [...new Set([...named, ...metersOf(metric)])];
    const wanted = meters.flatMap((meter) => priceOfMeter(meter, metric, atMeters, splitBy));
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

/** Returns a price's entry by a field that does not split meters; none if it is withdrawn. */
function unsplitPrice(
  { name, metric, match, charge }: PriceOnDay,
  splitBy: readonly string[],
): readonly WantedPrice[] {
  if (charge === undefined) return [];
  const [beyond] = keysBeyond(match, splitBy);
  const impossible = `meters are not split by ${beyond}: add it to splitMetersBy`;
  return [{ place: usagePlace(metric, match), price: name, charge, impossible }];
}

/** Returns the price that applies to a meter's usage; none where no price does. */
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
  const applicable = new Set(readings.flatMap((values) => applicablePrices(prices, values)));
  const none = readings.some((values) => applicablePrices(prices, values).length === 0);
  const [first, second] = [...applicable];
  if (first === undefined) return [];
  if (second === undefined && !none) return [wantedAt(meter, first)];
  const names = [...applicable].map(({ name }) => `"${name}"`).join(', ');
  const impossible = `the name of the meter does not show whether ${names} ${second === undefined ? 'applies' : 'apply'} to its usage`;
  return [{ ...wantedAt(meter, first), impossible }];
}

function wantedAt(place: string, { name, charge }: PriceOnDay): WantedPrice {
  return { place, price: name, charge };
}

/**
 * Returns the most specific prices that apply to values, as meter names spell them. A withdrawn
 * price counts only where no other applies.
 */
function applicablePrices(
  prices: readonly PriceOnDay[],
  values: ReadonlyMap<string, string>,
): readonly PriceOnDay[] {
  const matching = prices.filter(({ match }) =>
    Object.entries(match).every(([key, value]) => values.get(key) === normalized(value)),
  );
  const live = matching.filter(({ charge }) => charge !== undefined);
  const candidates = live.length > 0 ? live : matching;
  const most = Math.max(...candidates.map(({ match }) => Object.keys(match).length));
  return candidates.filter(({ match }) => Object.keys(match).length === most);
}

/**
 * Returns every assignment of fields to the segments of a meter's name. A name leaves out fields
 * that usage lacks, so a segment may be the value of several fields. Undefined where the name was
 * cut off.
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

/** Returns whether the current split can produce a meter's name. Other meters get no more usage. */
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

/** Returns why a price that applies to `count` meters cannot be set; undefined where it can. */
function whyImpossible({ charge }: WantedPrice, count: number): string | undefined {
  if (charge === undefined) return undefined;
  const plain = plainCharge(charge);
  if (plain.kind === 'flat') return undefined;
  if (plain.includedNanos > 0n) return 'Stripe has no included quantity beside volume tiers';
  if (plain.tiers.some(({ upToNanos }) => upToNanos % NANOS_PER_UNIT > 0n)) {
    return 'Stripe’s tiers end at whole units';
  }
  if (count < 2 || !dependsOnMonth(charge)) return undefined;
  return `its tiers count all usage together, and at Stripe that of each of ${count} meters by itself`;
}
