import { RunningSum, seriesOf } from '../../model/aggregate.ts';
import { isCorrection, isNegative } from '../../model/correction.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { Cuts } from '../records/aggregated-range.ts';

/** What is added up into one event at the most. */
export const HOUR_MS = 3_600_000;

/** The beginning of the whole hour in which a window starts, milliseconds since the epoch. */
export function hourStart(windowStart: string): number {
  return Math.floor(Date.parse(windowStart) / HOUR_MS) * HOUR_MS;
}

/** The end of the whole hour in which a moment lies, milliseconds since the epoch. */
export function hourEnd(at: number): number {
  return (Math.floor(at / HOUR_MS) + 1) * HOUR_MS;
}

/**
 * Adds up events of one series, one hour and one side of each cut. What comes of the same events with the
 * same cuts is always the same, ids included. Corrections, and whatever is below zero, stay as they are.
 */
export interface Aggregator {
  /** Events come in the ledger's order. */
  add(stored: QueuedEvent): void;
  /** How many events it comes to so far. */
  readonly size: number;
  /**
   * The sums in the order of their last parts; each stands at the sequence number of its last part, and
   * names the numbers of all of them.
   */
  all(): readonly QueuedEvent[];
}

export function createAggregator(cuts: Cuts): Aggregator {
  const sums = new Map<string, { readonly sum: RunningSum; readonly parts: number[] }>();
  const single: QueuedEvent[] = [];
  return {
    add: ({ sequence, event }) => {
      if (isCorrection(event) || isNegative(event.quantity)) {
        single.push({ sequence, event });
        return;
      }
      const start = Date.parse(event.window_start);
      const side = (cuts[event.tenant] ?? []).filter((cut) => cut <= start).length;
      const key = `${hourEnd(start)} ${side} ${seriesOf(event)}`;
      const known = sums.get(key);
      if (known === undefined) sums.set(key, { sum: new RunningSum(event), parts: [sequence] });
      else {
        known.sum.add(event);
        known.parts.push(sequence);
      }
    },
    get size() {
      return sums.size + single.length;
    },
    all: () =>
      [
        ...single,
        ...[...sums.values()].map(({ sum, parts }): QueuedEvent => {
          const sequence = parts.at(-1) ?? 0;
          return { sequence, event: sum.event(), ...(parts.length > 1 && { parts }) };
        }),
      ].toSorted((a, b) => a.sequence - b.sequence),
  };
}
