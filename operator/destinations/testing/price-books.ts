import { parseAmount } from '../../model/pricing/amount.ts';
import { differenceText } from '../../model/pricing/compare.ts';
import type { PriceCharge, Price, PriceBook } from '../../model/price-book.ts';
import type { Destination } from '../destination.ts';

/** The day of the tests' clock. */
export const TODAY = '2026-11-21';
const { signal: NEVER } = new AbortController();

/** Returns a price of an amount (decimal text) for each unit, since 2026. */
export function flatCharge(amount: string): PriceCharge {
  return { kind: 'flat', picos: parseAmount(amount) ?? 0n, includedNanos: 0n };
}

/** Returns a price that is named after its `match` and has one rate since 2026. */
export function priceFor(metric: string, match: Price['match'], charge: PriceCharge): Price {
  const name = [metric, ...Object.values(match)].join(' ');
  return { name, metric, match, rates: [{ from: '2026-01-01', charge }] };
}

export function bookFor(prices: readonly Price[], change: Partial<PriceBook> = {}): PriceBook {
  return { name: 'tenant-standard', currency: 'USD', prices, ...change };
}

/**
 * Returns a destination's comparison with the default plan's book on a day: a line for each
 * difference.
 */
export async function differencesOf(
  destination: Destination,
  book: PriceBook,
  day = TODAY,
): Promise<readonly string[]> {
  const metrics = new Set(book.prices.map(({ metric }) => metric));
  const books = [{ book, isDefault: true }];
  const outcome = await destination.prices?.compare({ books, metrics, day }, NEVER);
  if (outcome?.kind !== 'compared') throw new Error(outcome?.reason ?? 'no prices');
  const [compared] = outcome.books;
  return (compared?.differences ?? []).flatMap((one) => differenceText(one) ?? []);
}
