import type { Ledger } from '../../../ledger/ledger.ts';
import { LevelRollups } from '../../../ledger/leveldb/level-rollups.ts';
import type { Rollups } from '../../../ledger/rollups.ts';
import type { Clock } from '../../../telemetry/clock.ts';
import type { Logger } from '../../../telemetry/logger.ts';
import { SumUpdater } from '../sum-updater.ts';
import { SumsStore } from '../sums-store.ts';
import { LedgerTotals } from '../usage-totals.ts';

/** Sums of a ledger, and what keeps them, for tests that say when. */
export class StoredSums extends LedgerTotals {
  readonly store: SumsStore;
  readonly updater: SumUpdater;
  readonly #rollups: Rollups;

  /** `rollups`: where they are stored, or a directory of LevelDB. */
  constructor(
    ledger: Ledger,
    rollups: Rollups | string,
    surroundings: { readonly clock: Clock; readonly logger: Logger },
  ) {
    const stored = typeof rollups === 'string' ? new LevelRollups(rollups) : rollups;
    const store = new SumsStore(stored, ledger.stats().ledgerId);
    const updater = new SumUpdater({ ledger, store, ...surroundings });
    const rebuild = (reason: string): Promise<void> => updater.rebuild(reason);
    super({ ledger, store, rebuild, clock: surroundings.clock });
    this.store = store;
    this.updater = updater;
    this.#rollups = stored;
  }

  catchUp(signal: AbortSignal): Promise<void> {
    return this.updater.catchUp(signal);
  }

  close(): Promise<void> {
    return this.#rollups.close();
  }
}
