import type { MetricFilter } from '../../settings/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import type { PricesOutcome, PricesQuery } from '../../destinations/prices.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { wantedMetrics } from '../feeder/event-filter.ts';

export interface PriceQuestion {
  readonly books: readonly PriceBook[];
  /** The plan of tenants without one. */
  readonly defaultPlan: string;
  /** The UTC day whose prices are compared, for example `2026-12-01`. */
  readonly day: string;
}

export type PriceComparison =
  /** The comparison of the books that price a metric of the destination. */
  | PricesOutcome
  /** The destination makes no invoices. */
  | { readonly kind: 'no-prices'; readonly type: DestinationType };

export interface ComparedDestination {
  readonly destination: Pick<Destination, 'type' | 'accepts' | 'prices'>;
  readonly filter: MetricFilter | undefined;
  readonly catalog: readonly MetricDefinition[];
}

/** Compares price books with a destination's prices. Changes nothing at the destination. */
export async function comparePriceBooks(
  compared: ComparedDestination,
  question: PriceQuestion,
  signal: AbortSignal,
): Promise<PriceComparison> {
  const { destination } = compared;
  if (destination.prices === undefined) {
    return { kind: 'no-prices', type: destination.type };
  }
  const query = queryOf(compared, question);
  if (query.books.length === 0) return { kind: 'compared', books: [] };
  return destination.prices.compare(query, signal);
}

/** Selects the books that price a metric of the destination, and only these prices. */
function queryOf(
  { destination, filter, catalog }: ComparedDestination,
  { books, defaultPlan, day }: PriceQuestion,
): PricesQuery {
  const wanted = wantedMetrics(catalog, destination, filter);
  const metrics = new Set(wanted.map(({ code }) => code));
  const selected = books.flatMap((book) => {
    const prices = book.prices.filter(({ metric }) => metrics.has(metric));
    const isDefault = book.name === defaultPlan;
    return prices.length === 0 ? [] : [{ book: { ...book, prices }, isDefault }];
  });
  return { books: selected, metrics, day };
}
