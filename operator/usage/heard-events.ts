import type { StoredEvent } from '../ledger/ledger.ts';
import { Gathering } from './gather.ts';

/** Sums that are worth storing, and those that are held at the most, some 3 MB: more may be heard while some are stored. */
const ENOUGH_SUMS = 2_000;
const MOST_SUMS = 6_000;

/**
 * Events that somebody has read from the ledger for a purpose of its own, to be summed without being read once more. Only
 * what follows without a gap counts, and nothing twice, whoever reads and how often.
 */
export class HeardEvents {
  #next: Gathering | undefined;

  /** The number of the last event that was heard; undefined while nothing is held. */
  get progress(): number | undefined {
    return this.#next?.progress;
  }

  /** Whether there is as much as should be stored. */
  get isEnough(): boolean {
    return this.#next !== undefined && this.#next.size >= ENOUGH_SUMS;
  }

  /**
   * Takes all events that there are after a sequence number, up to some other. `summedTo` is how far the stored sums go,
   * which counts where nothing is held. Whether any of them were new and could be taken.
   */
  hear(events: readonly StoredEvent[], after: number, summedTo: number): boolean {
    const next = this.#next ?? new Gathering(summedTo);
    const { progress } = next;
    if (after > progress || next.size >= MOST_SUMS || next.isFull) return false;
    for (const stored of events) if (stored.sequence > progress) next.add(stored);
    if (next.progress === progress) return false;
    this.#next = next;
    return true;
  }

  /** Has what is held stored, with what comes after it heard meanwhile; all is forgotten unless `store` says that it is. */
  async storeBy(store: (gathered: Gathering) => Promise<boolean>): Promise<void> {
    const gathered = this.#next;
    if (gathered === undefined) return;
    const next = new Gathering(gathered.progress);
    this.#next = next;
    let isStored = false;
    try {
      isStored = await store(gathered);
    } finally {
      if (!isStored || next.size === 0) this.#next = undefined;
    }
  }

  forget(): void {
    this.#next = undefined;
  }
}
