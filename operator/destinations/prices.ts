import type { PriceBook } from '../model/price-book.ts';
import type { PriceDifference } from '../pricing/compare.ts';

/** What a billing system is asked about its prices. */
export interface PricesQuery {
  /** With the prices of `metrics` only. */
  readonly book: PriceBook;
  /** Codes of what is delivered there: prices of anything else are none of ours. */
  readonly metrics: ReadonlySet<string>;
  /** It prices the tenants that name no plan: over there they are on the plan that the destination's settings name. */
  readonly isDefault: boolean;
  /** The UTC day as of which the book is meant, `2026-12-01`. */
  readonly day: string;
}

/** A price book held against a billing system, which is only read (docs/costs.md#prices-at-billing-systems). */
export type PricesOutcome =
  | {
      readonly kind: 'compared';
      /** The plan or rate card over there. */
      readonly plan: string;
      /** Whether there is one. */
      readonly exists: boolean;
      readonly differences: readonly PriceDifference[];
    }
  | { readonly kind: 'failed'; readonly reason: string };

export type ComparePrices = (query: PricesQuery, signal: AbortSignal) => Promise<PricesOutcome>;
