import type { Ledger, StoredEvent } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Gathering, gather } from './gather.ts';
import { HeardEvents } from './heard-events.ts';
import { ReadWriteLock } from './read-write-lock.ts';
import { DamagedSums, type SumsStore } from './sums-store.ts';

export interface SumKeeperOptions {
  readonly ledger: Ledger;
  readonly store: SumsStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Shared by the ledgers that are summed one after the other: what one takes in at a time, its memory holds some 25 MiB of. */
  readonly turns?: SummingTurns | undefined;
}

/** Each has its turn when those are over that came before it. */
export type SummingTurns = Pick<ReadWriteLock, 'write'>;

/** Between two rounds; what is newer is read from the ledger for each query. */
const ROUND_MS = 30_000;
const EXPIRE_MS = 3_600_000;
/** Events that are left to whoever reads them anyhow, while somebody does. */
const MOST_LEFT = 20_000;

/**
 * Keeps stored sums up with their ledger: out of events that somebody has read from it anyhow, and, where nobody does,
 * by reading it.
 */
export class SumKeeper {
  readonly #ledger: Ledger;
  readonly #store: SumsStore;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #lock = new ReadWriteLock();
  readonly #turns: SummingTurns;
  readonly #heard = new HeardEvents();
  /** Something was heard since the last round. */
  #isHearing = false;
  /** What is heard meanwhile may be among what is read from the ledger. */
  #isReading = false;
  #wake: () => void = () => undefined;
  /** Monotonic milliseconds. */
  #expiredAt = Number.NEGATIVE_INFINITY;

  constructor({ ledger, store, clock, logger, turns }: SumKeeperOptions) {
    this.#ledger = ledger;
    this.#store = store;
    this.#clock = clock;
    this.#logger = logger;
    this.#turns = turns ?? new ReadWriteLock();
  }

  /** The sequence number after which nothing is summed. Events that were deleted before they could be are beyond recall. */
  get summedTo(): number {
    return Math.max(this.#store.progress, this.#ledger.lowWater());
  }

  /** The stored sums stay as they are meanwhile. */
  reading<T>(action: () => Promise<T>): Promise<T> {
    return this.#lock.read(action);
  }

  /** Forgets all sums, to be made anew from the ledger. */
  async rebuild(reason: string): Promise<void> {
    this.#logger.warn(`[http] usage sums are made anew: ${reason}`);
    await this.#lock.write(() => this.#store.clear());
  }

  /** Sums what is new in the ledger. */
  async catchUp(signal: AbortSignal): Promise<void> {
    const [ledger, store] = [this.#ledger, this.#store];
    if (store.progress > ledger.head()) await this.rebuild('they belong to another ledger');
    if (store.progress > 0 && store.progress < ledger.lowWater()) {
      this.#logger.warn('[http] events were deleted before they were summed', {
        after: store.progress,
      });
    }
    await this.#turns.write(() => this.#sumHeard());
    let last = Number.NaN;
    while (!signal.aborted && store.progress < ledger.head() && store.progress !== last) {
      last = store.progress;
      await this.#turns.write(() => this.#sumSome(signal));
    }
  }

  /**
   * Takes all events that there are after a sequence number, up to some other, which somebody has read from the ledger.
   * Never throws.
   */
  hear(events: readonly StoredEvent[], after: number): void {
    if (this.#isReading) return;
    try {
      if (!this.#heard.hear(events, after, this.summedTo)) return;
      this.#isHearing = true;
      if (this.#heard.isEnough) this.#wake();
    } catch {
      // Whoever reads must not fail for it. The same events are read from the ledger, and it is told then.
      this.#heard.forget();
    }
  }

  /** In its turn. */
  #sumHeard(): Promise<void> {
    return this.#heard.storeBy((gathered) => this.#commit(gathered));
  }

  /** In its turn. */
  async #sumSome(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    this.#heard.forget();
    this.#isReading = true;
    try {
      const after = this.summedTo;
      await this.#commit(await gather(this.#ledger, after, signal));
    } finally {
      this.#isReading = false;
    }
  }

  /** False where the sums that these come after are no more, since they are made anew. */
  #commit({ after, progress, changes, first }: Gathering): Promise<boolean> {
    const store = this.#store;
    return this.#lock.write(async () => {
      if (after !== this.summedTo) return false;
      if (progress > after) await store.commit(changes, progress, first);
      return true;
    });
  }

  /** Stores what was heard, and catches up, now and then until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#round(signal).catch((error: unknown) => this.#recover(error, signal));
      await this.#untilNextRound(signal);
    }
  }

  /** Over at once where enough was heard meanwhile. */
  async #untilNextRound(signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    if (this.#heard.isEnough) return;
    const ended = AbortSignal.any([signal, woken.signal]);
    await this.#clock.sleep(ROUND_MS, ended).catch(() => undefined);
  }

  async #round(signal: AbortSignal): Promise<void> {
    const heardTo = this.#heard.progress ?? this.#store.progress;
    const isFollowing = this.#isHearing && this.#ledger.head() - heardTo <= MOST_LEFT;
    this.#isHearing = false;
    if (isFollowing) await this.#turns.write(() => this.#sumHeard());
    else await this.catchUp(signal);
    if (this.#clock.monotonic() - this.#expiredAt < EXPIRE_MS) return;
    this.#expiredAt = this.#clock.monotonic();
    await this.#lock.write(() => this.#store.expire(this.#clock.now()));
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    if (error instanceof DamagedSums) await this.rebuild(error.message);
    else this.#logger.warn('[http] usage is not summed up', { error });
  }
}
