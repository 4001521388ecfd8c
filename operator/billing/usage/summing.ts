import type { Ledger } from '../../ledger/ledger.ts';
import type { Rollups } from '../../ledger/rollups.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { SumUpdater } from './sum-updater.ts';
import { SumsStore } from './sums-store.ts';
import { LedgerTotals, type UsageTotals } from './usage-totals.ts';

/** Owns the usage sums from opening to closing, and keeps them up to date. */
export class Summing {
  readonly #options;
  readonly #stop = new AbortController();
  #totals: UsageTotals | undefined;
  #updater: SumUpdater | undefined;
  #running: Promise<void> | undefined;

  constructor(options: {
    readonly ledger: Ledger;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly rollups: Rollups;
  }) {
    this.#options = options;
  }

  /** Undefined until the sums are open: then every query reads the ledger. */
  get totals(): UsageTotals | undefined {
    return this.#totals;
  }

  /** See {@link SumUpdater.closeMonth}. Throws while the sums are not open. */
  async closeMonth(month: string, signal: AbortSignal): Promise<void> {
    if (this.#updater === undefined) throw new Error('usage sums are not open');
    await this.#updater.closeMonth(month, signal);
  }

  /** Opens the sums. Never rejects: queries can always read the ledger. */
  async open(): Promise<void> {
    const { ledger, rollups, logger } = this.#options;
    if (this.#stop.signal.aborted) return;
    try {
      const store = new SumsStore(rollups, ledger.stats().ledgerId);
      const updater = new SumUpdater({ ...this.#options, store });
      this.#updater = updater;
      await updater.begin();
      const rebuild = (reason: string): Promise<void> => updater.rebuild(reason);
      this.#running = updater.run(this.#stop.signal);
      this.#totals = new LedgerTotals({ ...this.#options, store, rebuild });
    } catch (error) {
      logger.warn('[http] usage sums could not be opened: every query reads the ledger', { error });
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#totals = undefined;
    await this.#running;
    await this.#options.rollups.close();
  }
}
