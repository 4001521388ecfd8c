import type { UsageEvent } from '../../model/event.ts';
import { damage } from '../failures.ts';
import { LedgerReadError, type ReadOutcome, type StoredEvent } from '../ledger.ts';
import { BinaryRows, copyRange } from './binary-rows.ts';
import { decodeRows, EventDecoder, type StreamView } from './decode-rows.ts';
import { EVENT_COLUMNS, idDigits, storedRowOf } from './event-rows.ts';
import { toLedgerFailure } from './failures.ts';
import type { DaySegment } from './state.ts';

const MAX_PAGE_EVENTS = 5_000;

/** A page after a sequence number; it ends at the end of a day. */
export async function readPage(
  view: StreamView,
  afterSequence: number,
  limit: number,
): Promise<ReadOutcome> {
  const segment = view.contents.segments.find(({ lastSequence }) => lastSequence > afterSequence);
  if (segment === undefined) {
    // Behind the newest event there are only numbers that were left out.
    const lastSequence = Math.max(afterSequence, view.contents.state.head);
    return { kind: 'page', events: [], lastSequence };
  }
  const first = Math.max(afterSequence + 1, segment.firstSequence);
  const last = Math.min(segment.lastSequence, first + Math.min(limit, MAX_PAGE_EVENTS) - 1);
  try {
    return {
      kind: 'page',
      events: await readRange(view, segment, first, last),
      lastSequence: last,
    };
  } catch (error) {
    return toLedgerFailure(`reading after ${afterSequence}`, error);
  }
}

/** Every event from `first` to `last` of one day. Throws a LedgerReadError at the first that is damaged or missing. */
export async function readRange(
  view: StreamView,
  { day }: DaySegment,
  first: number,
  last: number,
): Promise<readonly StoredEvent[]> {
  const decoder = new EventDecoder(view);
  const rows = new BinaryRows((row) => decoder.take(row));
  const text = copyRange(view.contents.state.stream, day, first, last);
  await view.copyOut(text, (piece) => rows.take(piece));
  const events = await decoder.events();
  let expected = first;
  for (const { sequence } of events) {
    if (sequence !== expected) break;
    expected += 1;
  }
  if (expected <= last) throw damage(`events of ${day}`, `event ${expected} is missing`);
  return events;
}

/** Events whose window starts in `[from, to)`; of the batches that may hold any, every event is read and checked. */
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
    for (const range of await rangesWith(view(), segment, from, to)) {
      for (let first = range.first; first <= range.last; first += MAX_PAGE_EVENTS) {
        signal?.throwIfAborted();
        const last = Math.min(range.last, first + MAX_PAGE_EVENTS - 1);
        for (const stored of await reading(readRange(view(), segment, first, last))) {
          const start = Date.parse(stored.event.window_start);
          if (start >= from && start < to) yield stored;
        }
      }
    }
  }
}

interface SequenceRange {
  readonly first: number;
  readonly last: number;
}

/** The batches of a day with windows that start in `[from, to)`, those that follow each other as one. */
async function rangesWith(
  { contents, query }: StreamView,
  { day, lastSequence }: DaySegment,
  from: number,
  to: number,
): Promise<readonly SequenceRange[]> {
  const rows = await reading(
    query({
      text: `select first_seq, last_seq from meterfeed.batch
        where stream = $1 and day = $2 and min_start < $3 and max_start >= $4 and last_seq <= $5
        order by last_seq`,
      values: [contents.state.stream, day, to, from, lastSequence],
    }),
  );
  const ranges: SequenceRange[] = [];
  for (const row of rows) {
    const first = Number(row['first_seq']);
    const last = Number(row['last_seq']);
    const before = ranges.at(-1);
    if (before?.last === first - 1) ranges[ranges.length - 1] = { first: before.first, last };
    else ranges.push({ first, last });
  }
  return ranges;
}

/** The stored event of an id; undefined when there is none. */
export async function findEvent(id: string, view: StreamView): Promise<UsageEvent | undefined> {
  const { state } = view.contents;
  const rows = await reading(
    view.query({
      text: `select ${EVENT_COLUMNS} from meterfeed.event
        where stream = $1 and id = $2 and seq <= $3`,
      values: [state.stream, idDigits(id), state.head],
    }),
  );
  const events = await reading(decodeRows(view, rows.map(storedRowOf)));
  // A foreign id's digits are a hash of it, so the event itself has the last word.
  return events.find(({ event }) => event.id === id)?.event;
}

export async function readRecord(
  { contents, query }: StreamView,
  key: string,
): Promise<string | undefined> {
  const [row] = await reading(
    query({
      text: 'select value from meterfeed.record where stream = $1 and key = $2',
      values: [contents.state.stream, key],
    }),
  );
  return row?.['value'] ?? undefined;
}

/**
 * The chain value of the batch that ends with an event: empty where none ends there, undefined where the event
 * is not stored. Throws a LedgerReadError where that cannot be read.
 */
export async function chainAt(
  { contents, query }: StreamView,
  sequence: number,
): Promise<string | undefined> {
  const { segments, state } = contents;
  const segment = segments.find(
    ({ firstSequence, lastSequence }) => firstSequence <= sequence && sequence <= lastSequence,
  );
  if (segment === undefined) return undefined;
  const rows = await reading(
    query({
      text: 'select chain from meterfeed.batch where stream = $1 and day = $2 and last_seq = $3',
      values: [state.stream, segment.day, sequence],
    }),
  );
  return rows[0]?.['chain'] ?? '';
}

const PAGE_RECORDS = 500;
/** No key goes on like this. */
const LAST_CHARACTERS = '\u{10FFFF}'.repeat(8);

/** The records whose keys begin with `prefix`, in key order, a page at a time. */
export async function* readRecords(
  view: () => StreamView,
  prefix: string,
): AsyncGenerator<readonly [key: string, value: string], void, void> {
  for (let after: string | undefined; ; ) {
    const { contents, query } = view();
    const rows = await reading(
      query({
        text: `select key, value from meterfeed.record
          where stream = $1 and key ${after === undefined ? '>=' : '>'} $2 and key <= $3 order by key limit ${PAGE_RECORDS}`,
        values: [contents.state.stream, after ?? prefix, prefix + LAST_CHARACTERS],
      }),
    );
    for (const { key, value } of rows) yield [key ?? '', value ?? ''];
    after = rows.at(-1)?.['key'] ?? undefined;
    if (after === undefined || rows.length < PAGE_RECORDS) return;
  }
}

/** Rejects with a LedgerReadError, as readers are promised. */
export async function reading<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw new LedgerReadError(toLedgerFailure('reading', error));
  }
}
