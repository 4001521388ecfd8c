import type { MetricFilter } from '../../config/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import type { PriceBook } from '../../model/price-book.ts';
import type { PriceDifference } from '../../pricing/compare.ts';
import { wantedMetrics } from '../feeder/event-filter.ts';

export interface PriceQuestion {
  readonly books: readonly PriceBook[];
  /** The plan of tenants that name none. */
  readonly defaultPlan: string;
  /** The UTC day as of which the books are meant, `2026-12-01`. */
  readonly day: string;
}

/** A price book held against a destination. */
export interface ComparedBook {
  readonly book: string;
  /** ISO 4217 */
  readonly currency: string;
  /** The plan or rate card over there, and whether there is one. */
  readonly plan: string;
  readonly exists: boolean;
  readonly differences: readonly PriceDifference[];
}

export type PriceComparison =
  /** One for each book that has a price of what the destination is given, in their order. */
  | { readonly kind: 'compared'; readonly books: readonly ComparedBook[] }
  /** It makes no invoices. */
  | { readonly kind: 'no-prices'; readonly type: DestinationType }
  | { readonly kind: 'failed'; readonly reason: string };

export interface ComparedDestination {
  readonly destination: Pick<Destination, 'type' | 'accepts' | 'comparePrices'>;
  readonly filter: MetricFilter | undefined;
  readonly catalog: readonly MetricDefinition[];
}

/** Holds price books against what a destination has, one after another; nothing is changed there. */
export async function comparePriceBooks(
  { destination, filter, catalog }: ComparedDestination,
  { books, defaultPlan, day }: PriceQuestion,
  signal: AbortSignal,
): Promise<PriceComparison> {
  if (destination.comparePrices === undefined) {
    return { kind: 'no-prices', type: destination.type };
  }
  const wanted = wantedMetrics(catalog, destination, filter);
  const metrics = new Set(wanted.map(({ code }) => code));
  const compared: ComparedBook[] = [];
  for (const book of books) {
    const prices = book.prices.filter(({ metric }) => metrics.has(metric));
    if (prices.length === 0) continue;
    const isDefault = book.name === defaultPlan;
    const query = { book: { ...book, prices }, metrics, isDefault, day };
    const outcome = await destination.comparePrices(query, signal);
    if (outcome.kind === 'failed') return outcome;
    const { plan, exists, differences } = outcome;
    compared.push({ book: book.name, currency: book.currency, plan, exists, differences });
  }
  return { kind: 'compared', books: compared };
}
