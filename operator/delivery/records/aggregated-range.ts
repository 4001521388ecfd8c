/**
 * For each tenant with any, the moments inside of hours at which what bills it changes, ascending:
 * milliseconds since the epoch.
 */
export type Cuts = Readonly<Record<string, readonly number[]>>;

/**
 * A stretch of the ledger whose events a destination gets as sums. With it every sum is known again: the
 * events do not change, and the cuts are part of it (docs/delivery.md#records).
 */
export interface AggregatedRange {
  /** The sequence number before its first event, and that of its last. */
  readonly from: number;
  readonly to: number;
  readonly cuts?: Cuts;
  /** Sums that stand up to here are settled, while the cursor is at `from`. */
  readonly doneTo?: number;
}
