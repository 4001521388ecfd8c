/**
 * What usage costs on a plan (docs/how-to/costs.md). Amounts are whole pico-units of the currency (10⁻¹²), quantities whole
 * nano-units, so that no double ever touches them.
 */
export interface PriceBook {
  /** The code of the plan. */
  readonly name: string;
  /** ISO 4217 */
  readonly currency: string;
  readonly prices: readonly Price[];
}

/** What one kind of usage costs, and from when on. */
export interface Price {
  /** Unique within the book; stands for the line of an invoice. */
  readonly name: string;
  readonly metric: string;
  /** `sku`, `region` or dimensions, and the value that usage must have of each; empty for any usage of the metric. */
  readonly match: Readonly<Record<string, string>>;
  /** Sorted by `from`; each holds until the next. */
  readonly rates: readonly Rate[];
}

export interface Rate {
  /** The UTC day whose first instant it begins with, `2026-12-01`. */
  readonly from: string;
  /** Absent where the price is withdrawn: a less specific one holds from then on, or none. */
  readonly charge?: Charge;
}

export type Charge = FlatCharge | TieredCharge;

interface MonthlyAllowance {
  /** How much of each calendar month (UTC) costs a tenant nothing; tiers count what is beyond. */
  readonly includedNanos: bigint;
}

export interface FlatCharge extends MonthlyAllowance {
  readonly kind: 'flat';
  readonly picos: bigint;
}

/** By the quantity of a tenant's calendar month: each tier's part at its own price, or all at the price of the tier reached. */
export interface TieredCharge extends MonthlyAllowance {
  readonly kind: 'graduated' | 'volume';
  /** Ascending. */
  readonly tiers: readonly Tier[];
  /** Beyond the last tier. */
  readonly beyondPicos: bigint;
}

export interface Tier {
  /** Inclusive. */
  readonly upToNanos: bigint;
  readonly picos: bigint;
}
