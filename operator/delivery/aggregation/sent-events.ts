import type { Ledger } from '../../ledger/ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { AggregatedRange } from '../records/aggregated-range.ts';
import { type Aggregator, createAggregator, HOUR_MS, hourEnd, hourStart } from './aggregator.ts';
import type { AggregatedRanges } from './ranges.ts';

/** What a destination was, or is to be, sent of a stretch of time. */
export interface SentQuery {
  readonly from: number;
  readonly to: number;
  readonly isMeant: (event: UsageEvent) => boolean;
}

/**
 * Events whose windows start in a stretch of time, as a destination is sent them: sums where it gets sums.
 * Where it does, all of the hours that the stretch touches. What was sent as sums, and whose parts are not all stored any more, is
 * left out: what is left of them is no sum that was sent. Throws as {@link Ledger.scan} does.
 */
export async function* sentEvents(
  ledger: Pick<Ledger, 'scan' | 'lowWater' | 'stats'>,
  ranges: AggregatedRanges,
  { from, to, isMeant }: SentQuery,
  signal: AbortSignal,
): AsyncGenerator<QueuedEvent> {
  const first = ranges.isEmpty ? from : Math.floor(from / HOUR_MS) * HOUR_MS;
  const last = ranges.isEmpty ? to : hourEnd(to - 1);
  const [deletedTo, { horizon }] = [ledger.lowWater(), ledger.stats()];
  const sums = new Map<AggregatedRange, Aggregator>();
  for await (const { sequence, event } of ledger.scan(first, last, signal)) {
    if (!isMeant(event)) continue;
    const range = ranges.of(sequence);
    if (range === undefined) {
      yield { sequence, event };
      continue;
    }
    if (range.from < deletedTo && hourStart(event.window_start) < horizon) continue;
    const sum = sums.get(range) ?? createAggregator(range.cuts ?? {});
    sum.add({ sequence, event });
    sums.set(range, sum);
  }
  for (const sum of sums.values()) yield* sum.all();
}
