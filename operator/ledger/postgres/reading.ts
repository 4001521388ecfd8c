import type { UsageEvent } from '../../model/event.ts';
import { damage } from '../failures.ts';
import { LedgerReadError, type ReadOutcome, type StoredEvent } from '../ledger.ts';
import { AFTER_ALL_KEYS } from '../rollups.ts';
import { EVENT_COLUMNS, type ReadEvent, readRow, storedId } from './event-row.ts';
import { toLedgerFailure } from './failures.ts';
import type { RecordPlace } from './ledger-store.ts';
import type { RunQuery } from './readers.ts';
import type { Segment, StreamView } from './state.ts';
import { dayOf, endOfWeek } from './weeks.ts';
import type { EventRange } from '../missing-ranges.ts';

const MAX_PAGE_EVENTS = 5_000;

/** Reads a page of events after a sequence number; a page ends at the end of a segment. */
export async function readPage(
  view: StreamView,
  afterSequence: number,
  limit: number,
): Promise<ReadOutcome> {
  const { segments, state } = view.contents;
  const segment = segments.find(({ lastSequence }) => lastSequence > afterSequence);
  if (segment === undefined) {
    // After the newest event there are only skipped numbers.
    return { kind: 'page', events: [], lastSequence: Math.max(afterSequence, state.head) };
  }
  const first = Math.max(afterSequence + 1, segment.firstSequence);
  const last = Math.min(segment.lastSequence, first + Math.min(limit, MAX_PAGE_EVENTS) - 1);
  try {
    const events = await readRange(view, segment, first, last);
    return {
      kind: 'page',
      events: events.map(({ sequence, event }) => ({ sequence, event })),
      lastSequence: last,
    };
  } catch (error) {
    return toLedgerFailure(`reading after ${afterSequence}`, error);
  }
}

/** Every event from `first` to `last` of a segment. Throws at a damaged or missing event. */
export async function readRange(
  { schema, query }: StreamView,
  { week }: Segment,
  first: number,
  last: number,
): Promise<readonly ReadEvent[]> {
  const rows = await query({
    text: `select ${EVENT_COLUMNS} from ${schema}.event
      where seq >= $1 and seq <= $2 and stored_on >= $3::date and stored_on < $4::date order by seq`,
    values: [first, last, week, dayOf(endOfWeek(week))],
  });
  const events: ReadEvent[] = [];
  for (const row of rows) {
    const expected = first + events.length;
    if (Number(row['seq']) !== expected) break;
    const event = readRow(row);
    if (event === undefined) throw damage(`events of ${week}`, `event ${expected} is damaged`);
    events.push(event);
  }
  const expected = first + events.length;
  if (expected <= last) throw damage(`events of ${week}`, `event ${expected} is missing`);
  return events;
}

/** Every event of a segment from `first` to `last`, by pages. Throws like {@link readRange}. */
export async function* walkRange(
  view: () => StreamView,
  segment: Segment,
  first: number,
  last: number,
  signal?: AbortSignal,
): AsyncGenerator<ReadEvent, void, void> {
  for (let from = first; from <= last; from += MAX_PAGE_EVENTS) {
    signal?.throwIfAborted();
    yield* await readRange(view(), segment, from, Math.min(last, from + MAX_PAGE_EVENTS - 1));
  }
}

/** Events whose window starts in `[from, to)`. Verifies all events of batches that may have any. */
export async function* scanEvents(
  view: () => StreamView,
  from: number,
  to: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredEvent, void, void> {
  const { segments } = view().contents;
  for (const segment of segments) {
    if (segment.starts.from >= to || segment.starts.to < from) continue;
    if (segment.lastSequence <= view().contents.state.lowWater) continue;
    for (const range of await reading(rangesWith(view(), segment, from, to))) {
      const { firstSequence, lastSequence } = range;
      const events = walkRange(view, segment, firstSequence, lastSequence, signal);
      for (;;) {
        const next = await reading(events.next(), signal);
        if (next.done === true) break;
        const { sequence, event } = next.value;
        const start = Date.parse(event.window_start);
        if (start >= from && start < to) yield { sequence, event };
      }
    }
  }
}

/** Ranges of the batches whose windows may start in `[from, to)`; adjacent ones are merged. */
async function rangesWith(
  { schema, query }: StreamView,
  { firstSequence, lastSequence }: Segment,
  from: number,
  to: number,
): Promise<readonly EventRange[]> {
  const rows = await query({
    text: `select first_seq, last_seq from ${schema}.batch
      where last_seq >= $1 and last_seq <= $2 and min_start < $3 and max_start >= $4
      order by last_seq`,
    values: [firstSequence, lastSequence, to, from],
  });
  const ranges: EventRange[] = [];
  for (const row of rows) {
    const firstSequence = Number(row['first_seq']);
    const lastSequence = Number(row['last_seq']);
    const before = ranges.at(-1);
    if (before?.lastSequence === firstSequence - 1) {
      ranges[ranges.length - 1] = { firstSequence: before.firstSequence, lastSequence };
    } else ranges.push({ firstSequence, lastSequence });
  }
  return ranges;
}

/** The stored event with an id; undefined if there is none. */
export async function findEvent(id: string, view: StreamView): Promise<UsageEvent | undefined> {
  const { schema, contents, query } = view;
  const text = `select ${EVENT_COLUMNS} from ${schema}.event where id = $1 and seq <= $2`;
  const rows = await reading(query({ text, values: [storedId(id), contents.state.head] }));
  for (const row of rows) {
    const found = readRow(row);
    if (found === undefined) throw damage('events', `event ${row['seq']} is damaged`);
    if (found.event.id === id) return found.event;
  }
  return undefined;
}

/**
 * The chain value of the batch that ends with this event: `''` if no batch ends there, undefined if
 * the event is not stored. Throws a LedgerReadError if the value cannot be read.
 */
export async function chainAt(
  { schema, contents, query }: StreamView,
  sequence: number,
): Promise<string | undefined> {
  const isStored = contents.segments.some(
    ({ firstSequence, lastSequence }) => firstSequence <= sequence && sequence <= lastSequence,
  );
  if (!isStored) return undefined;
  const text = `select chain from ${schema}.batch where last_seq = $1`;
  const rows = await reading(query({ text, values: [sequence] }));
  return rows[0]?.['chain'] ?? '';
}

/** The record with a key; undefined if there is none. */
export async function readRecord(
  query: RunQuery,
  { table, before }: RecordPlace,
  key: string,
): Promise<string | undefined> {
  const text = `select value from ${table} where key = $1`;
  const [row] = await reading(query({ text, values: [before + key] }));
  return row?.['value'] ?? undefined;
}

/** The records whose keys begin with `prefix`, in key order. */
export async function* readRecords(
  query: RunQuery,
  { table, before }: RecordPlace,
  prefix: string,
): AsyncGenerator<readonly [key: string, value: string], void, void> {
  for await (const [key, value] of readKeys(query, table, before + prefix)) {
    yield [key.slice(before.length), value];
  }
}

const PAGE_RECORDS = 500;

/** The rows of a key-value table whose keys begin with `prefix`, in key order, read by pages. */
export async function* readKeys(
  query: RunQuery,
  table: string,
  prefix: string,
): AsyncGenerator<readonly [key: string, value: string], void, void> {
  for (let after: string | undefined; ; ) {
    const text = `select key, value from ${table}
      where key ${after === undefined ? '>=' : '>'} $1 and key < $2 order by key limit ${PAGE_RECORDS}`;
    const values = [after ?? prefix, prefix + AFTER_ALL_KEYS];
    const rows = await reading(query({ text, values }));
    for (const { key, value } of rows) yield [key ?? '', value ?? ''];
    after = rows.at(-1)?.['key'] ?? undefined;
    if (after === undefined || rows.length < PAGE_RECORDS) return;
  }
}

/** Awaits a read. Rejects with a LedgerReadError, or with the reason of the signal. */
export async function reading<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work;
  } catch (error) {
    signal?.throwIfAborted();
    throw new LedgerReadError(toLedgerFailure('reading', error));
  }
}
