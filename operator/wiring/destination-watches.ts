import type { Registry } from 'prom-client';
import type { Delivery } from '../delivery/delivery.ts';
import type { DestinationStatus } from '../delivery/destination-status.ts';
import { type DriftReport, createDriftWatch } from '../delivery/operations/drift-watch.ts';
import { createRateWatch, type TooSlow } from '../delivery/operations/rate-watch.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Part } from './parts.ts';

/** What is noticed about destinations beside delivery itself. */
export interface DestinationWatches {
  readonly part: Part;
  /** Only what is known, or wrong. */
  noticedOf(status: DestinationStatus): {
    readonly drift?: DriftReport;
    readonly tooSlow?: TooSlow;
  };
}

export interface DestinationWatchesOptions {
  readonly delivery: Delivery;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
}

/** Yesterday's sums, and the rate at which usage comes, against what each destination has and takes. */
export function createDestinationWatches(options: DestinationWatchesOptions): DestinationWatches {
  const drift = createDriftWatch(options);
  const rate = createRateWatch(options.ledger, options.clock);
  return {
    part: {
      name: 'destination watches',
      run: async (signal) => {
        await Promise.all([drift.run(signal), rate.run(signal)]);
      },
    },
    noticedOf: (status) => {
      const report = drift.reportOf(status.name);
      const tooSlow = rate.tooSlow(status);
      return {
        ...(report !== undefined && { drift: report }),
        ...(tooSlow !== undefined && { tooSlow }),
      };
    },
  };
}
