import type { UsageEvent } from '../../usage/event.ts';
import { parseInstant } from './instants.ts';
import { isDerivedId } from './keys.ts';
import type { SegmentSummary, TimeRange } from './state.ts';

/** Keeps a segment's summary while events are added to it, without a copy of it for each. */
export interface SegmentTally {
  /** The sequence number of the last event added. */
  lastSequence(): number;
  add(event: UsageEvent, bytes: number): void;
  /** The summary with everything added, and the chain value at its last event. */
  summary(chain: string): SegmentSummary;
}

export function createSegmentTally(before: SegmentSummary): SegmentTally {
  let { lastSequence, bytes, starts, ends, foreignIds } = before;

  return {
    lastSequence: () => lastSequence,
    add(event, size) {
      lastSequence += 1;
      bytes += size;
      starts = widen(starts, parseInstant(event.window_start));
      ends = widen(ends, parseInstant(event.window_end));
      foreignIds ||= !isDerivedId(event.id);
    },
    summary: (chain) => ({
      ...before,
      lastSequence,
      chain,
      bytes,
      foreignIds,
      ...(starts !== undefined && { starts }),
      ...(ends !== undefined && { ends }),
    }),
  };
}

/** The range that also covers a time. */
function widen(range: TimeRange | undefined, time: number): TimeRange {
  if (range === undefined) return { from: time, to: time };
  if (time < range.from) return { ...range, from: time };
  return time > range.to ? { ...range, to: time } : range;
}
