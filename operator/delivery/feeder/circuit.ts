import type { QueuedEvent } from '../delivery-result.ts';

/** Number of failures in a row that opens the circuit. */
const THRESHOLD = 5;
/** Number of failures of a single event, while others are accepted, that parks its tenant. */
const POISON_AFTER = 3;

/**
 * Circuit breaker of one destination. While it is open, one event at a time is tried, of each
 * tenant in turn. It also finds the poison event: an event that keeps failing alone while others
 * are accepted. It must not delay other tenants
 * (docs/explanation/delivery.md#when-something-goes-wrong).
 */
export class Circuit {
  #failuresInRow = 0;
  #probes = 0;
  #successes = 0;
  /** `strikes` counts failures between which another event was accepted. */
  readonly #alone = new Map<number, { failures: number; strikes: number; successesSeen: number }>();

  isOpen(): boolean {
    return this.#failuresInRow >= THRESHOLD;
  }

  failures(): number {
    return this.#failuresInRow;
  }

  /** Returns which of the waiting events to try now. */
  choose(queued: readonly QueuedEvent[]): readonly QueuedEvent[] {
    if (this.isOpen()) {
      const candidates = firstOfEachTenant(queued);
      const chosen = candidates[this.#probes++ % Math.max(1, candidates.length)];
      return chosen === undefined ? [] : [chosen];
    }
    const suspects = new Set(
      queued.filter(({ sequence }) => this.#alone.has(sequence)).map(({ event }) => event.tenant),
    );
    const others = queued.filter(({ event }) => !suspects.has(event.tenant));
    return others.length > 0 ? others : queued.slice(0, 1);
  }

  /** Notes that the destination accepted an event. */
  succeeded(): void {
    this.#failuresInRow = 0;
    this.#successes += 1;
  }

  /** Notes a failed attempt. `limited`: the destination wants a pause, so no event is at fault. */
  failed(tried: readonly QueuedEvent[], limited: boolean): void {
    this.#failuresInRow += 1;
    const [single] = tried;
    if (limited || single === undefined || tried.length > 1) return;
    const known = this.#alone.get(single.sequence);
    const successesSeen = this.#successes;
    if (known === undefined) {
      this.#alone.set(single.sequence, { failures: 1, strikes: 0, successesSeen });
      return;
    }
    known.failures += 1;
    if (successesSeen > known.successesSeen) known.strikes += 1;
    known.successesSeen = successesSeen;
  }

  /** Opens at once. An operator must act, and one event is enough to see the effect. */
  trip(): void {
    this.#failuresInRow = Math.max(this.#failuresInRow, THRESHOLD);
  }

  /** Returns the event that fails while others are accepted; undefined if there is none. */
  poisonEvent(queued: readonly QueuedEvent[]): QueuedEvent | undefined {
    return queued.find(({ sequence }) => {
      const known = this.#alone.get(sequence);
      return known !== undefined && known.failures >= POISON_AFTER && known.strikes > 0;
    });
  }

  /** Forgets the failures of an event that is settled or set aside. */
  clear(sequence: number): void {
    this.#alone.delete(sequence);
  }
}

function firstOfEachTenant(queued: readonly QueuedEvent[]): QueuedEvent[] {
  const seen = new Set<string>();
  return queued.filter(({ event }) => {
    if (seen.has(event.tenant)) return false;
    seen.add(event.tenant);
    return true;
  });
}
