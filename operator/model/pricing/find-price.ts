import type { UsageEvent } from '../event.ts';
import type { PriceCharge, Price, PriceBook } from '../price-book.ts';

/** The fields of usage that prices depend on. */
export type PricedUsage = Pick<UsageEvent, 'metric' | 'sku' | 'region' | 'dimensions'>;

/** The price of some usage on a day. */
export interface FoundPrice {
  readonly name: string;
  /** When its rate started, `2026-12-01`. */
  readonly from: string;
  /** What usage must have, as in {@link Price}. */
  readonly match: Price['match'];
  readonly charge: PriceCharge;
}

/** The prices of a book, which must have no ties ({@link areTied}). */
export class PriceFinder {
  readonly #byMetric: ReadonlyMap<string, readonly Price[]>;

  constructor(book: PriceBook) {
    const mostSpecificFirst = book.prices.toSorted((a, b) => specificity(b) - specificity(a));
    this.#byMetric = Map.groupBy(mostSpecificFirst, ({ metric }) => metric);
  }

  /** The most specific price on a UTC day such as `2026-11-21`; undefined if there is none. */
  find(usage: PricedUsage, day: string): FoundPrice | undefined {
    for (const { name, match, rates } of this.#byMetric.get(usage.metric) ?? []) {
      if (!matches(match, usage)) continue;
      const rate = rates.findLast(({ from }) => from <= day);
      if (rate?.charge !== undefined) {
        return { name, from: rate.from, match, charge: rate.charge };
      }
    }
    return undefined;
  }
}

/**
 * Whether two prices can match the same usage without one being more specific: they have the same
 * number of keys, and no key with two different values.
 */
export function areTied(a: Price, b: Price): boolean {
  if (a.metric !== b.metric || specificity(a) !== specificity(b)) return false;
  return Object.entries(a.match).every(([key, value]) => (b.match[key] ?? value) === value);
}

function specificity({ match }: Price): number {
  return Object.keys(match).length;
}

function matches(match: Price['match'], usage: PricedUsage): boolean {
  return Object.entries(match).every(([key, value]) => valueOf(usage, key) === value);
}

function valueOf({ sku, region, dimensions }: PricedUsage, key: string): string | undefined {
  if (key === 'sku') return sku;
  return key === 'region' ? region : dimensions?.[key];
}
