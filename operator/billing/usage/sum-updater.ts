import { DamagedRollups } from '../../ledger/rollups.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { gather } from './gather.ts';
import type { SumsStore } from './sums-store.ts';

/** Between two rounds; what is newer is read from the ledger for each query. */
const PASS_MS = 30_000;
const EXPIRE_MS = 3_600_000;

/** Keeps the stored sums of a ledger up with it, in the process that leads. */
export class SumUpdater {
  readonly #ledger: Ledger;
  readonly #store: SumsStore;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Monotonic milliseconds. */
  #expiredAt = Number.NEGATIVE_INFINITY;

  constructor({
    ledger,
    store,
    clock,
    logger,
  }: {
    readonly ledger: Ledger;
    readonly store: SumsStore;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#ledger = ledger;
    this.#store = store;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Forgets all sums, to be made again from the ledger. */
  async rebuild(reason: string): Promise<void> {
    this.#logger.warn(`[http] usage sums are made anew: ${reason}`);
    await this.#store.clear();
  }

  /** Sums what is new in the ledger. */
  async catchUp(signal: AbortSignal): Promise<void> {
    let progress = await this.begin();
    while (!signal.aborted && progress < this.#ledger.head()) {
      const after = Math.max(progress, this.#ledger.lowWater());
      const gathering = await gather(this.#ledger, after, signal);
      if (gathering.progress === after) return;
      // Where they were made again meanwhile, the next round goes on.
      if (!(await this.#store.commit(gathering, progress))) return;
      progress = gathering.progress;
    }
  }

  /** The number of the last event that is summed. Sums of another ledger are forgotten. */
  async begin(): Promise<number> {
    const [ledger, store] = [this.#ledger, this.#store];
    const progress = await store.progress().catch(async (error: unknown) => {
      if (!(error instanceof DamagedRollups)) throw error;
      await this.rebuild(error.message);
      return 0;
    });
    if (progress > ledger.head()) {
      await this.rebuild('they belong to another ledger');
      return 0;
    }
    if (progress > 0 && progress < ledger.lowWater()) {
      this.#logger.warn('[http] events were deleted before they were summed', { after: progress });
    }
    return progress;
  }

  /** Catches up now and then until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#round(signal).catch((error: unknown) => this.#recover(error, signal));
      await this.#clock.sleep(PASS_MS, signal).catch(() => undefined);
    }
  }

  async #round(signal: AbortSignal): Promise<void> {
    await this.catchUp(signal);
    if (this.#clock.monotonic() - this.#expiredAt < EXPIRE_MS) return;
    this.#expiredAt = this.#clock.monotonic();
    await this.#store.expire(this.#clock.now());
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    if (!(error instanceof DamagedRollups)) {
      this.#logger.warn('[http] usage is not summed up', { error });
      return;
    }
    try {
      await this.rebuild(error.message);
    } catch {
      // They are forgotten in the next round.
    }
  }
}
