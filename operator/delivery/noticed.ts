import type { DriftReport } from './operations/drift-watch.ts';
import type { PriceReport } from './operations/price-watch.ts';
import type { Rate } from './operations/rate-watch.ts';

/**
 * Results of the periodic checks of a destination. A field is absent while it has nothing to show.
 */
export interface Noticed {
  /** Comparison of yesterday's sums. Absent before the first comparison. */
  readonly drift?: DriftReport;
  /**
   * Comparison of its prices with the price books. Absent before the first, or if no book concerns
   * it.
   */
  readonly prices?: PriceReport;
  /** Share of its rate limit in use. Absent if it has no limit. */
  readonly rate?: Rate;
  /** Present if it accepts fewer events a second than arrive. */
  readonly tooSlow?: Rate;
}
