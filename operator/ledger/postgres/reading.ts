import { crc32 } from 'node:zlib';
import { Pool } from 'pg';
import type { LedgerDatabase } from '../../config/settings.ts';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { sequenceSeed } from '../event-chain.ts';
import { damage } from '../failures.ts';
import { LedgerReadError, type ReadOutcome, type StoredEvent } from '../ledger.ts';
import { EVENT_COLUMNS, idDigits, joinEvent, rowOf } from './event-rows.ts';
import { toLedgerFailure } from './failures.ts';
import { type NumberedSeries, selectByNumber, type SeriesCache, seriesOf } from './series.ts';
import { clientOptions, type Row, type Statement } from './session.ts';
import type { Contents, DaySegment } from './state.ts';

/** Runs a single statement outside of any transaction that writes. */
export type Query = (statement: Statement) => Promise<readonly Row[]>;

/** Connections for reading, taken as needed. */
export interface Readers {
  readonly query: Query;
  end(): Promise<void>;
}

const READERS = 4;
const ANSWER_MS = 60_000;
const IDLE_MS = 30_000;

export function createReaders(database: LedgerDatabase): Readers {
  const pool = new Pool({
    ...clientOptions(database),
    max: READERS,
    idleTimeoutMillis: IDLE_MS,
    // The pool closes a connection whose query failed; nothing of a reader is left to be done on the server.
    query_timeout: ANSWER_MS,
    allowExitOnIdle: true,
  });
  // An idle connection that the server ends is no failure of anything.
  pool.on('error', () => undefined);
  return {
    async query({ text, values }) {
      const { rows } = await pool.query({ text, values: [...(values ?? [])] });
      return rows;
    },
    end: () => pool.end(),
  };
}

/** What reading needs to know of a stream. */
export interface StreamView {
  readonly contents: Contents;
  readonly series: SeriesCache;
  readonly query: Query;
}

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
  const rows = await view.query({
    text: `select ${EVENT_COLUMNS} from meterfeed.event
      where day = $1 and stream = $2 and seq between $3 and $4 order by seq`,
    values: [day, view.contents.state.stream, first, last],
  });
  const events = await decodeRows(view, rows);
  let expected = first;
  for (const { sequence } of events) {
    if (sequence !== expected) break;
    expected += 1;
  }
  if (expected <= last) throw damage(`events of ${day}`, `event ${expected} is missing`);
  return events;
}

/** The events in rows of EVENT_COLUMNS. Throws a LedgerReadError at the first that is damaged. */
export async function decodeRows(
  view: StreamView,
  rows: readonly Row[],
): Promise<readonly StoredEvent[]> {
  const numbers = new Set(rows.map((row) => Number(row['series'])));
  const remembered = new Map([...numbers].map((number) => [number, view.series.byNumber(number)]));
  const unknown = [...numbers].filter((number) => remembered.get(number) === undefined);
  const known = await loadSeries(view, unknown);
  const first = rows.map((row) => {
    const number = Number(row['series']);
    return decodeRow(row, known.get(number) ?? remembered.get(number));
  });
  if (!first.includes(undefined)) return first.filter((stored) => stored !== undefined);
  // A series may have been given properties since it was remembered.
  const failed = rows.filter((_, index) => first[index] === undefined);
  const anew = await loadSeries(view, [...new Set(failed.map((row) => Number(row['series'])))]);
  return rows.map((row, index) => {
    const stored = first[index] ?? decodeRow(row, anew.get(Number(row['series'])));
    if (stored === undefined) throw damage('events', `event ${Number(row['seq'])} is damaged`);
    return stored;
  });
}

/** Asks for series. Their own map, because the memory may be emptied meanwhile. */
async function loadSeries(
  { contents, series, query }: StreamView,
  numbers: readonly number[],
): Promise<ReadonlyMap<number, NumberedSeries>> {
  const loaded = new Map<number, NumberedSeries>();
  if (numbers.length === 0) return loaded;
  for (const row of await query(selectByNumber(contents.state.stream, numbers))) {
    const one = seriesOf(row);
    loaded.set(one.number, one);
    series.remember(one);
  }
  return loaded;
}

/** Undefined where the event and its checksum do not agree. */
function decodeRow(row: Row, series: NumberedSeries | undefined): StoredEvent | undefined {
  if (series === undefined) return undefined;
  const sequence = Number(row['seq']);
  try {
    const event = joinEvent(series, rowOf(row));
    if (eventChecksum(encodeEvent(event), sequence) !== Number(row['crc'])) return undefined;
    return { sequence, event };
  } catch {
    return undefined;
  }
}

/** As it stands in the column `crc`: signed. */
export function eventChecksum(text: string, sequence: number): number {
  return crc32(text, sequenceSeed(sequence)) | 0;
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
  const events = await reading(decodeRows(view, rows));
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
