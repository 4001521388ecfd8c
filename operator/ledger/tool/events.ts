import { decodeStoredEvent, type EventEntry, walkEvents } from '../leveldb/event-walk.ts';
import { nanosFromDecimal, decimalFromNanos } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { inspectSegments } from './inspection.ts';

/** Which events a command is about; all of them where a field is absent. */
export interface EventFilter {
  readonly from?: number;
  readonly to?: number;
  readonly tenant?: string;
  readonly metric?: string;
}

/** The stored events that a filter lets through, in order, with their exact text. */
export async function* selectEvents(
  directory: string,
  filter: EventFilter,
): AsyncGenerator<{ readonly entry: EventEntry; readonly event: UsageEvent }, void, void> {
  for await (const { database, name, state } of inspectSegments(directory)) {
    const first = Math.max(state.segment.firstSequence, filter.from ?? 0);
    const last = Math.min(state.segment.lastSequence, filter.to ?? Number.MAX_SAFE_INTEGER);
    for await (const entries of walkEvents(database, name, first, last)) {
      for (const entry of entries) {
        const event = decodeStoredEvent(entry);
        if (filter.tenant !== undefined && event.tenant !== filter.tenant) continue;
        if (filter.metric !== undefined && event.metric !== filter.metric) continue;
        yield { entry, event };
      }
    }
  }
}

/** One line of JSON per event: `{"sequence":1,"event":{…}}`, the event exactly as it is stored. */
export async function* dumpEvents(
  directory: string,
  filter: EventFilter,
): AsyncGenerator<string, void, void> {
  for await (const { entry } of selectEvents(directory, filter)) {
    yield `{"sequence":${entry.sequence},"event":${entry.body.toString()}}`;
  }
}

/** Exact sums by tenant and metric, one line of JSON each, in order of tenant and metric. */
export async function* sumEvents(
  directory: string,
  filter: EventFilter,
): AsyncGenerator<string, void, void> {
  const sums = new Map<string, { nanos: bigint; events: number }>();
  for await (const { event } of selectEvents(directory, filter)) {
    const key = JSON.stringify([event.tenant, event.metric]);
    const sum = sums.get(key) ?? { nanos: 0n, events: 0 };
    sum.nanos += nanosFromDecimal(event.quantity);
    sum.events += 1;
    sums.set(key, sum);
  }
  for (const [key, { nanos, events }] of [...sums].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const [tenant, metric] = JSON.parse(key) as [string, string];
    const names = JSON.stringify({ tenant, metric, events }).slice(0, -1);
    yield `${names},"quantity":${decimalFromNanos(nanos)}}`;
  }
}
