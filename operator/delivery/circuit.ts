import type { Entry } from './entry.ts';

/** Failures in a row until the circuit opens. */
const THRESHOLD = 5;
/** Failures of one event alone, while others are accepted, until its tenant is set aside. */
const PATIENCE = 3;

/**
 * Circuit breaker of one destination, and the detective that goes with it. While it is open only one
 * event at a time is tried, of one tenant after the other. An event that keeps failing alone while
 * others are accepted is itself at fault: it is named, so that it does not hold up everybody else.
 */
export interface Circuit {
  isOpen(): boolean;
  failures(): number;
  /** Which of the events waiting to be sent to try now. */
  choose(entries: readonly Entry[]): readonly Entry[];
  /** Something was accepted. */
  succeeded(): void;
  /** Nothing was; `limited` when the other side asked for a pause, which is nobody's fault. */
  failed(tried: readonly Entry[], limited: boolean): void;
  /** Opens at once: an operator must act, and one event is enough to see whether one did. */
  trip(): void;
  /** The event that fails while others are accepted, if there is one. */
  culprit(entries: readonly Entry[]): Entry | undefined;
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
    choose: (entries) => {
      if (isOpen()) {
        const candidates = firstOfEachTenant(entries);
        const chosen = candidates[probes++ % Math.max(1, candidates.length)];
        return chosen === undefined ? [] : [chosen];
      }
      const suspects = new Set(
        entries.filter(({ sequence }) => alone.has(sequence)).map(({ event }) => event.tenant),
      );
      const innocent = entries.filter(({ event }) => !suspects.has(event.tenant));
      return innocent.length > 0 ? innocent : entries.slice(0, 1);
    },
    succeeded: () => {
      failuresInRow = 0;
      successes += 1;
    },
    failed: (tried, limited) => {
      failuresInRow += 1;
      const [only] = tried;
      if (limited || only === undefined || tried.length > 1) return;
      const known = alone.get(only.sequence);
      if (known === undefined) {
        alone.set(only.sequence, { failures: 1, strikes: 0, successesSeen: successes });
        return;
      }
      known.failures += 1;
      if (successes > known.successesSeen) known.strikes += 1;
      known.successesSeen = successes;
    },
    trip: () => {
      failuresInRow = Math.max(failuresInRow, THRESHOLD);
    },
    culprit: (entries) =>
      entries.find(({ sequence }) => {
        const known = alone.get(sequence);
        return known !== undefined && known.failures >= PATIENCE && known.strikes > 0;
      }),
    clear: (sequence) => void alone.delete(sequence),
  };
}

function firstOfEachTenant(entries: readonly Entry[]): Entry[] {
  const seen = new Set<string>();
  return entries.filter(({ event }) => {
    if (seen.has(event.tenant)) return false;
    seen.add(event.tenant);
    return true;
  });
}
