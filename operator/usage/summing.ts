import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { SumKeeperOptions } from './sum-keeper.ts';
import { openSumsStore } from './sums-store.ts';
import { createUsageTotals, type KeptTotals, type UsageTotals } from './usage-totals.ts';

export interface SummingOptions extends Pick<SumKeeperOptions, 'turns'> {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly usageDirectory?: string;
}

/** Keeps the sums of usage up to date from opening to closing. */
export interface Summing {
  readonly totals: () => UsageTotals | undefined;
  /** As {@link KeptTotals.hear}; nothing while it is not open. */
  readonly hear: KeptTotals['hear'];
  /** Never rejects: sums can always be made by reading the ledger. */
  open(): Promise<void>;
  close(): Promise<void>;
}

export function createSumming(options: SummingOptions): Summing {
  const { usageDirectory, logger } = options;
  const stop = new AbortController();
  let totals: KeptTotals | undefined;
  let closed: () => Promise<void> = async () => undefined;
  return {
    totals: () => totals,
    hear: (...heard) => totals?.hear(...heard),
    open: async () => {
      if (usageDirectory === undefined || stop.signal.aborted) return;
      try {
        const store = await openSumsStore(usageDirectory, options.ledger.stats().ledgerId);
        const opened = createUsageTotals({ ...options, store });
        const running = opened.run(stop.signal);
        totals = opened;
        closed = async () => {
          await running;
          await store.close();
        };
      } catch (error) {
        logger.warn('[http] no usage sums are kept: every sum reads the ledger', { error });
      }
    },
    close: async () => {
      stop.abort();
      totals = undefined;
      await closed();
    },
  };
}
