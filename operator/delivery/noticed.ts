import type { DriftReport } from './operations/drift-watch.ts';
import type { PriceReport } from './operations/price-watch.ts';
import type { Rate } from './operations/rate-watch.ts';

/** What is known of a destination beside delivery itself: only what is known, or wrong. */
export interface Noticed {
  /** How yesterday compared there; absent before the first comparison. */
  readonly drift?: DriftReport;
  /** How its prices compare with the price books; absent before the first comparison, and where none concerns it. */
  readonly prices?: PriceReport;
  /** How much of what it takes is in use; absent where it names no limit. */
  readonly rate?: Rate;
  /** It takes fewer events a second than come. */
  readonly tooSlow?: Rate;
}
