import type { DriftReport } from './operations/drift-watch.ts';
import type { PriceReport } from './operations/price-watch.ts';
import type { EventRate } from './operations/rate-watch.ts';

/** Results of a destination's periodic checks. Fields with nothing to show are absent. */
export interface Noticed {
  /** Comparison of yesterday's sums. Absent before the first comparison. */
  readonly drift?: DriftReport;
  /**
   * Comparison of its prices with the books. Absent before the first, and without a book for it.
   */
  readonly prices?: PriceReport;
  /** Share of its rate limit in use. Absent if it has no limit. */
  readonly rate?: EventRate;
  /** Present if it accepts fewer events a second than arrive. */
  readonly tooSlow?: EventRate;
}
