import type { PriceBook } from '../model/price-book.ts';
import type { PriceDifference } from '../model/pricing/compare.ts';

/** What a billing system is asked about its prices. */
export interface PricesQuery {
  readonly books: readonly MeantBook[];
  /** Codes of what is delivered there: prices of anything else are none of ours. */
  readonly metrics: ReadonlySet<string>;
  /** The UTC day as of which the books are meant, `2026-12-01`. */
  readonly day: string;
}

export interface MeantBook {
  /** With the prices of the query's `metrics` only. */
  readonly book: PriceBook;
  /** It prices the tenants that name no plan: over there they are on the plan that the destination's settings name. */
  readonly isDefault: boolean;
}

/** A price book held against a billing system. */
export interface ComparedBook {
  readonly book: string;
  /** ISO 4217 */
  readonly currency: string;
  /** The plan or rate card over there, and whether there is one. */
  readonly plan: string;
  readonly exists: boolean;
  readonly differences: readonly PriceDifference[];
}

/** Price books held against a billing system, which is only read (docs/how-to/costs.md#prices-at-billing-systems). */
export type PricesOutcome =
  /** In the order of the query. */
  | { readonly kind: 'compared'; readonly books: readonly ComparedBook[] }
  | { readonly kind: 'failed'; readonly reason: string };

/** The prices of a billing system. */
export interface Prices {
  /** Compares price books with the prices over there. */
  compare(query: PricesQuery, signal: AbortSignal): Promise<PricesOutcome>;
  /** Kinds of usage that came and that nobody has priced over there, as far as it can tell (condition `UnpricedUsage`). */
  unpriced(): readonly UnpricedUsage[];
}

/** A kind of usage without a price at a billing system. */
export interface UnpricedUsage {
  readonly metric: string;
  readonly sku?: string;
  /** The plan or rate card that has no price for it. */
  readonly plan: string;
  /** The quantity that came so far and is on no invoice, decimal text, where it is known. */
  readonly atStake?: string;
  /** Until when a price that is attached still bills that quantity, milliseconds since the epoch. */
  readonly savedUntil?: number;
}
