import type { QueuedEvent } from '../delivery-result.ts';

/** Failures in a row until the circuit opens. */
const THRESHOLD = 5;
/** Failures of one event alone, while others are accepted, until its tenant is set aside. */
const POISON_AFTER = 3;

/**
 * Circuit breaker of one destination. While it is open only one event at a time is tried, of one tenant
 * after the other. It also finds the poison event: one that keeps failing alone while others are
 * accepted is itself at fault and must not hold up everybody else
 * (docs/delivery.md#when-something-goes-wrong).
 */
export interface Circuit {
  isOpen(): boolean;
  failures(): number;
  /** Which of the events waiting to be sent to try now. */
  choose(queued: readonly QueuedEvent[]): readonly QueuedEvent[];
  /** Something was accepted. */
  succeeded(): void;
  /** Nothing was; `limited` when the other side asked for a pause, which is nobody's fault. */
  failed(tried: readonly QueuedEvent[], limited: boolean): void;
  /** Opens at once: an operator must act, and one event is enough to see whether one did. */
  trip(): void;
  /** The event that fails while others are accepted, if there is one. */
  poisonEvent(queued: readonly QueuedEvent[]): QueuedEvent | undefined;
  /** The event is settled or set aside. */
  clear(sequence: number): void;
}

export function createCircuit(): Circuit {
  let failuresInRow = 0;
  let probes = 0;
  let successes = 0;
  /** `strikes` counts failures with a success of others since the one before. */
  const alone = new Map<number, { failures: number; strikes: number; successesSeen: number }>();
  const isOpen = (): boolean => failuresInRow >= THRESHOLD;

  return {
    isOpen,
    failures: () => failuresInRow,
    choose: (queued) => {
      if (isOpen()) {
        const candidates = firstOfEachTenant(queued);
        const chosen = candidates[probes++ % Math.max(1, candidates.length)];
        return chosen === undefined ? [] : [chosen];
      }
      const suspects = new Set(
        queued.filter(({ sequence }) => alone.has(sequence)).map(({ event }) => event.tenant),
      );
      const others = queued.filter(({ event }) => !suspects.has(event.tenant));
      return others.length > 0 ? others : queued.slice(0, 1);
    },
    succeeded: () => {
      failuresInRow = 0;
      successes += 1;
    },
    failed: (tried, limited) => {
      failuresInRow += 1;
      const [single] = tried;
      if (limited || single === undefined || tried.length > 1) return;
      const known = alone.get(single.sequence);
      if (known === undefined) {
        alone.set(single.sequence, { failures: 1, strikes: 0, successesSeen: successes });
        return;
      }
      known.failures += 1;
      if (successes > known.successesSeen) known.strikes += 1;
      known.successesSeen = successes;
    },
    trip: () => {
      failuresInRow = Math.max(failuresInRow, THRESHOLD);
    },
    poisonEvent: (queued) =>
      queued.find(({ sequence }) => {
        const known = alone.get(sequence);
        return known !== undefined && known.failures >= POISON_AFTER && known.strikes > 0;
      }),
    clear: (sequence) => void alone.delete(sequence),
  };
}

function firstOfEachTenant(queued: readonly QueuedEvent[]): QueuedEvent[] {
  const seen = new Set<string>();
  return queued.filter(({ event }) => {
    if (seen.has(event.tenant)) return false;
    seen.add(event.tenant);
    return true;
  });
}
