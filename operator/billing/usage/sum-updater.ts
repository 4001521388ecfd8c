import pLimit from 'p-limit';
import { DamagedRollups } from '../../ledger/rollups.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { gather } from './gather.ts';
import type { SumsStore } from './sums-store.ts';

/** Between two passes. Queries read newer events from the ledger. */
const PASS_MS = 30_000;
const EXPIRE_MS = 3_600_000;
/**
 * Records of the closed months with the sequence number of the last event before the closing. The
 * ledger tool reads them beside prices and plans.
 */
export const CLOSINGS = 'costs/closed/';

/** Keeps the stored sums up to date with the ledger, in the leader. */
export class SumUpdater {
  readonly #ledger: Ledger;
  readonly #store: SumsStore;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #oneAtATime = pLimit(1);
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

  /** Deletes all sums, so that the next pass sums the ledger again. */
  async rebuild(reason: string): Promise<void> {
    this.#logger.warn(`[http] usage sums are rebuilt: ${reason}`);
    await this.#store.clear();
  }

  /**
   * Sums all events so far, then closes a month durably. See {@link SumsStore.closeMonth}. Throws
   * while the sums are rebuilt: all usage that is not summed would be late.
   */
  async closeMonth(month: string, signal: AbortSignal): Promise<void> {
    const head = this.#ledger.head();
    await this.catchUp(signal);
    await this.#store.closeMonth(month, async (progress) => {
      if (progress < head) throw new Error('usage sums are catching up with the ledger');
      const change = { key: CLOSINGS + month, value: String(progress) };
      const outcome = await this.#ledger.writeRecords([change]);
      if (outcome.kind === 'failed') throw new Error(outcome.message);
    });
  }

  /** Sums the new events of the ledger. A rebuild closes each month where it was closed. */
  catchUp(signal: AbortSignal): Promise<void> {
    return this.#oneAtATime(() => this.#catchUp(signal));
  }

  async #catchUp(signal: AbortSignal): Promise<void> {
    let progress = await this.begin();
    while (!signal.aborted && progress < this.#ledger.head()) {
      const closings = await Array.fromAsync(this.#ledger.records(CLOSINGS));
      const after = Math.max(progress, this.#ledger.lowWater());
      const closed = closings.findLast(([, sequence]) => Number(sequence) <= after);
      if (closed !== undefined) await this.#store.closeMonth(closed[0].slice(CLOSINGS.length));
      const next = closings.find(([, sequence]) => Number(sequence) > after);
      const gathering = await gather(this.#ledger, after, signal, next && Number(next[1]));
      if (gathering.progress === after) return;
      // If the sums were rebuilt meanwhile, the next pass continues.
      if (!(await this.#store.commit(gathering, progress))) return;
      progress = gathering.progress;
    }
  }

  /** The sequence number of the last summed event. Deletes sums of another ledger. */
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

  /** Catches up every 30 seconds until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#pass(signal).catch((error: unknown) => this.#recover(error, signal));
      await this.#clock.sleep(PASS_MS, signal).catch(() => undefined);
    }
  }

  async #pass(signal: AbortSignal): Promise<void> {
    await this.catchUp(signal);
    if (this.#clock.monotonic() - this.#expiredAt < EXPIRE_MS) return;
    this.#expiredAt = this.#clock.monotonic();
    await this.#store.expire(this.#clock.now());
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    if (!(error instanceof DamagedRollups)) {
      this.#logger.warn('[http] usage could not be summed', { error });
      return;
    }
    try {
      await this.rebuild(error.message);
    } catch {
      // The next pass rebuilds them.
    }
  }
}
