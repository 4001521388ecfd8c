import type { PriceBook } from '../model/price-book.ts';
import type { PriceDifference } from '../model/pricing/compare.ts';

/** A query for the prices at a billing system. */
export interface PricesQuery {
  readonly books: readonly MeantBook[];
  /** Codes of the metrics that go there. Prices of other metrics are ignored. */
  readonly metrics: ReadonlySet<string>;
  /** The UTC day of the compared prices, `2026-12-01`. */
  readonly day: string;
}

export interface MeantBook {
  /** A price book with the prices of the query's `metrics` only. */
  readonly book: PriceBook;
  /** True if it prices tenants without a plan. They have the plan in the destination's settings. */
  readonly isDefault: boolean;
}

/** The comparison of a price book with a billing system. */
export interface ComparedBook {
  readonly book: string;
  /** ISO 4217 */
  readonly currency: string;
  /** The plan or rate card at the billing system. */
  readonly plan: string;
  readonly exists: boolean;
  readonly differences: readonly PriceDifference[];
}

/**
 * The comparison of price books with a billing system, which is only read
 * (docs/how-to/costs.md#prices-at-billing-systems).
 */
export type PricesOutcome =
  /** In the order of the query. */
  | { readonly kind: 'compared'; readonly books: readonly ComparedBook[] }
  | { readonly kind: 'failed'; readonly reason: string };

/** The prices of a billing system. */
export interface Prices {
  /** Compares price books with the billing system's prices. */
  compare(query: PricesQuery, signal: AbortSignal): Promise<PricesOutcome>;
  /**
   * Returns delivered kinds of usage without a price, as far as the billing system shows them
   * (condition `UnpricedUsage`).
   */
  unpriced(): readonly UnpricedUsage[];
}

/** A kind of usage without a price at a billing system. */
export interface UnpricedUsage {
  readonly metric: string;
  readonly sku?: string;
  /** The plan or rate card that has no price for it. */
  readonly plan: string;
  /** The delivered quantity that is on no invoice, decimal text, where it is known. */
  readonly atStake?: string;
  /** Until when an added price still bills that quantity, milliseconds since the epoch. */
  readonly savedUntil?: number;
}
