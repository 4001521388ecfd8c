/**
 * Prices of a plan (docs/how-to/costs.md). Amounts are integers in pico-units of the currency
 * (10⁻¹²) and quantities in nano-units, so that no double ever touches them.
 */
export interface PriceBook {
  /** The code of the plan. */
  readonly name: string;
  /** ISO 4217 */
  readonly currency: string;
  readonly prices: readonly Price[];
}

/** The price of one kind of usage over time. */
export interface Price {
  /** Unique within the book. It names the invoice line. */
  readonly name: string;
  readonly metric: string;
  /**
   * `sku`, `region` or dimensions, with the value that usage must have; empty for any usage of the
   * metric.
   */
  readonly match: Readonly<Record<string, string>>;
  /** Sorted by `from`; each applies until the next. */
  readonly rates: readonly Rate[];
}

export interface Rate {
  /** The UTC day on which it starts, `2026-12-01`. */
  readonly from: string;
  /** Absent if the price is withdrawn. From then on a less specific price applies, or none. */
  readonly charge?: PriceCharge;
}

export type PriceCharge = FlatCharge | TieredCharge;

interface MonthlyAllowance {
  /** Free quantity in each UTC calendar month of a tenant. Tiers count what exceeds it. */
  readonly includedNanos: bigint;
}

export interface FlatCharge extends MonthlyAllowance {
  readonly kind: 'flat';
  readonly picos: bigint;
}

/**
 * Tiers by the quantity of a tenant's calendar month. Either each tier's part has its own price, or
 * everything has the price of the highest tier reached.
 */
export interface TieredCharge extends MonthlyAllowance {
  readonly kind: 'graduated' | 'volume';
  /** Ascending. */
  readonly tiers: readonly Tier[];
  /** Price above the last tier. */
  readonly beyondPicos: bigint;
}

export interface Tier {
  /** Inclusive. */
  readonly upToNanos: bigint;
  readonly picos: bigint;
}
