import type { Ledger } from '../../ledger/ledger.ts';
import type { Rollups } from '../../ledger/rollups.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { SumUpdater } from './sum-updater.ts';
import { SumsStore } from './sums-store.ts';
import { LedgerTotals, type UsageTotals } from './usage-totals.ts';

interface SummingOptions {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly rollups: Rollups;
}

/** Keeps the sums of usage up to date from opening to closing. */
export class Summing {
  readonly #options: SummingOptions;
  readonly #stop = new AbortController();
  #totals: UsageTotals | undefined;
  #running: Promise<void> | undefined;

  constructor(options: SummingOptions) {
    this.#options = options;
  }

  /** Undefined while they are not open: every sum then reads the ledger. */
  get totals(): UsageTotals | undefined {
    return this.#totals;
  }

  /** Never rejects: sums can always be made by reading the ledger. */
  async open(): Promise<void> {
    const { ledger, rollups, logger } = this.#options;
    if (this.#stop.signal.aborted) return;
    try {
      const store = new SumsStore(rollups, ledger.stats().ledgerId);
      const keeper = new SumUpdater({ ...this.#options, store });
      await keeper.begin();
      const rebuild = (reason: string): Promise<void> => keeper.rebuild(reason);
      this.#running = keeper.run(this.#stop.signal);
      this.#totals = new LedgerTotals({ ...this.#options, store, rebuild });
    } catch (error) {
      logger.warn('[http] no usage sums are kept: every sum reads the ledger', { error });
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#totals = undefined;
    await this.#running;
    await this.#options.rollups.close();
  }
}
