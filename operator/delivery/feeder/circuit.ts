import type { QueuedEvent } from '../delivery-result.ts';

/** Failures in a row until the circuit opens. */
const THRESHOLD = 5;
/** Failures of one event alone, while others are accepted, until its tenant is set aside. */
const POISON_AFTER = 3;

/**
 * Circuit breaker of one destination. While it is open only one event at a time is tried, of one tenant
 * after the other. It also finds the poison event: one that keeps failing alone while others are
 * accepted is itself at fault and must not hold up everybody else
 * (docs/explanation/delivery.md#when-something-goes-wrong).
 */
export class Circuit {
  #failuresInRow = 0;
  #probes = 0;
  #successes = 0;
  /** `strikes` counts failures with a success of others since the one before. */
  readonly #alone = new Map<number, { failures: number; strikes: number; successesSeen: number }>();

  isOpen(): boolean {
    return this.#failuresInRow >= THRESHOLD;
  }

  failures(): number {
    return this.#failuresInRow;
  }

  /** Which of the events waiting to be sent to try now. */
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

  /** Something was accepted. */
  succeeded(): void {
    this.#failuresInRow = 0;
    this.#successes += 1;
  }

  /** Nothing was; `limited` when the other side asked for a pause, which is nobody's fault. */
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

  /** Opens at once: an operator must act, and one event is enough to see whether one did. */
  trip(): void {
    this.#failuresInRow = Math.max(this.#failuresInRow, THRESHOLD);
  }

  /** The event that fails while others are accepted, if there is one. */
  poisonEvent(queued: readonly QueuedEvent[]): QueuedEvent | undefined {
    return queued.find(({ sequence }) => {
      const known = this.#alone.get(sequence);
      return known !== undefined && known.failures >= POISON_AFTER && known.strikes > 0;
    });
  }

  /** The event is settled or set aside. */
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
