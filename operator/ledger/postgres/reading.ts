import { crc32 } from 'node:zlib';
import { Pool } from 'pg';
import type { LedgerDatabase } from '../../config/settings.ts';
import { errorText } from '../../model/error-text.ts';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { sequenceSeed } from '../event-chain.ts';
import { damage } from '../failures.ts';
import { LedgerReadError, type ReadOutcome, type StoredEvent } from '../ledger.ts';
import { BinaryRows, copyRange } from './binary-rows.ts';
import { CopyOut } from './copy.ts';
import {
  EVENT_COLUMNS,
  idDigits,
  isPlain,
  joinEvent,
  type StoredRow,
  storedRowOf,
} from './event-rows.ts';
import { toLedgerFailure } from './failures.ts';
import { type NumberedSeries, selectByNumber, type SeriesCache, seriesOf } from './series.ts';
import { clientOptions, type Row, type Statement } from './session.ts';
import type { Contents, DaySegment } from './state.ts';

/** Runs a single statement outside of any transaction that writes. */
export type Query = (statement: Statement) => Promise<readonly Row[]>;

/** Runs a `COPY … TO STDOUT`; each piece is its row's only until `take` returns. */
export type RunCopyOut = (text: string, take: (piece: Buffer) => void) => Promise<void>;

export interface Reads {
  readonly query: Query;
  readonly copyOut: RunCopyOut;
}

/** Connections for reading, taken as needed. */
export interface Readers extends Reads {
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
    async copyOut(text, take) {
      let wrong: Error | undefined;
      const copy = new CopyOut(text, (piece) => {
        if (wrong !== undefined) return;
        try {
          take(piece);
        } catch (error) {
          // Nobody catches it where the driver reads from its connection.
          wrong = new Error(`a row cannot be read: ${errorText(error)}`, { cause: error });
        }
      });
      // What the pool promises is the answer, whatever its types say of statements of one's own.
      const answer: unknown = pool.query(copy);
      await answer;
      if (wrong !== undefined) throw wrong;
    },
    end: () => pool.end(),
  };
}

/** What reading needs to know of a stream. */
export interface StreamView extends Reads {
  readonly contents: Contents;
  readonly series: SeriesCache;
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
  const found = new BinaryRows();
  const text = copyRange(view.contents.state.stream, day, first, last);
  await view.copyOut(text, (piece) => found.take(piece));
  const events = await decodeRows(view, found.rows);
  let expected = first;
  for (const { sequence } of events) {
    if (sequence !== expected) break;
    expected += 1;
  }
  if (expected <= last) throw damage(`events of ${day}`, `event ${expected} is missing`);
  return events;
}

/** The events in rows. Throws a LedgerReadError at the first that is damaged. */
export async function decodeRows(
  view: StreamView,
  rows: readonly StoredRow[],
): Promise<readonly StoredEvent[]> {
  const remembered = new Map<number, NumberedSeries | undefined>();
  for (const { series } of rows) {
    if (!remembered.has(series)) remembered.set(series, view.series.byNumber(series));
  }
  const unknown = [...remembered].filter(([, one]) => one === undefined).map(([number]) => number);
  const known = await loadSeries(view, unknown);
  const events: StoredEvent[] = [];
  const failed: StoredRow[] = [];
  for (const row of rows) {
    const event = decodeRow(row, known.get(row.series) ?? remembered.get(row.series));
    if (event === undefined) failed.push(row);
    else events.push(event);
  }
  if (failed.length === 0) return events;
  // A series may have been given properties since it was remembered.
  const anew = await loadSeries(view, [...new Set(failed.map(({ series }) => series))]);
  for (const row of failed) {
    const event = decodeRow(row, anew.get(row.series));
    if (event === undefined) throw damage('events', `event ${row.sequence} is damaged`);
    events.push(event);
  }
  return events.toSorted((a, b) => a.sequence - b.sequence);
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
function decodeRow(
  { sequence, checksum, row }: StoredRow,
  series: NumberedSeries | undefined,
): StoredEvent | undefined {
  if (series === undefined) return undefined;
  try {
    const template = isPlain(row) ? series.template : undefined;
    if (template !== undefined) {
      if (eventChecksum(template.textOf(row), sequence) !== checksum) return undefined;
      return { sequence, event: template.eventOf(row) };
    }
    const event = joinEvent(series, row);
    return eventChecksum(encodeEvent(event), sequence) === checksum
      ? { sequence, event }
      : undefined;
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
