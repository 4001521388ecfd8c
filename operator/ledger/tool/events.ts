import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { decodeStoredEvent, walkEvents } from '../leveldb/event-walk.ts';
import { walkRange } from '../postgres/reading.ts';
import type { StreamView } from '../postgres/state.ts';
import { inspectSegments } from './inspection.ts';

/** Selects the events of a command; an absent field selects all. */
export interface EventSelection {
  readonly from?: number;
  readonly to?: number;
  readonly tenant?: string;
  readonly metric?: string;
}

/** A stored event and its exact text. */
interface SelectedEvent {
  readonly sequence: number;
  readonly text: string;
  readonly event: UsageEvent;
}

/** Location of a ledger: a directory, or a stream of a database. */
export type LedgerPlace = string | StreamView;

/** The stored events that match a filter, in order. */
export async function* selectEvents(
  place: LedgerPlace,
  filter: EventSelection,
): AsyncGenerator<SelectedEvent, void, void> {
  const events = typeof place === 'string' ? walkFiles(place, filter) : walkStream(place, filter);
  for await (const selected of events) {
    const { tenant, metric } = selected.event;
    if (filter.tenant !== undefined && tenant !== filter.tenant) continue;
    if (filter.metric !== undefined && metric !== filter.metric) continue;
    yield selected;
  }
}

async function* walkFiles(
  directory: string,
  filter: EventSelection,
): AsyncGenerator<SelectedEvent, void, void> {
  for await (const { database, name, state } of inspectSegments(directory)) {
    const first = Math.max(state.segment.firstSequence, filter.from ?? 0);
    const last = Math.min(state.segment.lastSequence, filter.to ?? Number.MAX_SAFE_INTEGER);
    for await (const entries of walkEvents(database, name, first, last)) {
      for (const entry of entries) {
        const { sequence, body } = entry;
        yield { sequence, text: body.toString(), event: decodeStoredEvent(entry) };
      }
    }
  }
}

async function* walkStream(
  view: StreamView,
  filter: EventSelection,
): AsyncGenerator<SelectedEvent, void, void> {
  for (const segment of view.contents.segments) {
    const last = Math.min(segment.lastSequence, filter.to ?? Number.MAX_SAFE_INTEGER);
    const first = Math.max(segment.firstSequence, filter.from ?? 0);
    yield* walkRange(() => view, segment, first, last);
  }
}

/** One line of JSON per event: `{"sequence":1,"event":{…}}`, the event exactly as it is stored. */
export async function* dumpEvents(
  place: LedgerPlace,
  filter: EventSelection,
): AsyncGenerator<string, void, void> {
  for await (const { sequence, text } of selectEvents(place, filter)) {
    yield `{"sequence":${sequence},"event":${text}}`;
  }
}

/** Exact sums by tenant and metric, one line of JSON each, in order of tenant and metric. */
export async function* sumEvents(
  place: LedgerPlace,
  filter: EventSelection,
): AsyncGenerator<string, void, void> {
  const sums = new Map<string, { nanos: bigint; events: number }>();
  for await (const { event } of selectEvents(place, filter)) {
    const key = JSON.stringify([event.tenant, event.metric]);
    const sum = sums.get(key) ?? { nanos: 0n, events: 0 };
    sum.nanos += nanosFromDecimal(event.quantity);
    sum.events += 1;
    sums.set(key, sum);
  }
  for (const [key, { nanos, events }] of [...sums].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const [tenant, metric] = JSON.parse(key) as [string, string];
    const names = JSON.stringify({ tenant, metric, events }).slice(0, -1);
    yield `${names},"quantity":${signedFromNanos(nanos)}}`;
  }
}

/** An event as a destination exports it: a usage event, or a CloudEvent that carries one. */
interface Exported {
  readonly quantity: number;
  times: number;
}

/**
 * Compares the ledger with a destination's export, a file with one JSON object per line. Returns
 * one line of JSON per difference, then one with the counts:
 * - `missing`: in the ledger only;
 * - `unknown`: in the file only;
 * - `repeated`: in the file more than once;
 * - `differs`: with another quantity.
 */
export async function* diffEvents(
  place: LedgerPlace,
  file: string,
  filter: EventSelection,
): AsyncGenerator<string, void, void> {
  const exported = await readExport(file);
  const counts = { equal: 0, missing: 0, unknown: 0, repeated: 0, differs: 0 };
  for await (const { sequence, event } of selectEvents(place, filter)) {
    const found = exported.get(event.id);
    exported.delete(event.id);
    const difference = differenceOf(Number(event.quantity), found);
    counts[difference] += 1;
    if (difference === 'equal') continue;
    const { quantity: stored } = event;
    yield JSON.stringify({
      difference,
      sequence,
      id: event.id,
      tenant: event.tenant,
      metric: event.metric,
      stored,
      exported: found?.quantity,
    });
  }
  for (const [id, { quantity }] of exported) {
    counts.unknown += 1;
    yield JSON.stringify({ difference: 'unknown', id, exported: quantity });
  }
  yield JSON.stringify(counts);
}

function differenceOf(
  quantity: number,
  found: Exported | undefined,
): 'equal' | 'missing' | 'repeated' | 'differs' {
  if (found === undefined) return 'missing';
  if (found.times > 1) return 'repeated';
  return found.quantity === quantity ? 'equal' : 'differs';
}

async function readExport(file: string): Promise<Map<string, Exported>> {
  const exported = new Map<string, Exported>();
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    number += 1;
    if (line.trim() === '') continue;
    const { id, quantity } = parseLine(line, `${file}:${number}`);
    const found = exported.get(id);
    if (found === undefined) exported.set(id, { quantity, times: 1 });
    else found.times += 1;
  }
  return exported;
}

function parseLine(
  line: string,
  where: string,
): { readonly id: string; readonly quantity: number } {
  const parsed = JSON.parse(line) as { data?: unknown };
  const { id, quantity } = (parsed.data ?? parsed) as { id?: unknown; quantity?: unknown };
  if (typeof id === 'string' && typeof quantity === 'number') return { id, quantity };
  throw new Error(`diff: ${where}: not an event with id and quantity: "${line.slice(0, 120)}"`);
}
