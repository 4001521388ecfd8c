import { encodeStoredEvents, nextChain } from '../event-chain.ts';
import { damage } from '../failures.ts';
import type { Cursor } from '../ledger.ts';
import { extraText, isDerived, splitEvent, type SplitEvent } from './event-rows.ts';
import {
  cursorStatements,
  recordStatements,
  updateStream,
  upsertSegment,
} from './batch-statements.ts';
import type { BatchPlan } from './plan-batch.ts';
import { eventChecksum } from './reading.ts';
import {
  insertSeries,
  type NumberedSeries,
  selectByKey,
  type SeriesCache,
  seriesKey,
  seriesOf,
  touchSeries,
} from './series.ts';
import type { Row, Session, Statement } from './session.ts';
import {
  cursorOf,
  type Contents,
  type DaySegment,
  type StreamState,
  type TimeRange,
} from './state.ts';

/** The statements of a batch, and what holds once they are committed. */
export interface BatchWrite {
  readonly statements: readonly Statement[];
  /** Cursors as they are to be, without the ends of their windows: the server knows those. */
  readonly contents: Contents;
  /** New series and those that this day has seen for the first time. */
  readonly series: readonly NumberedSeries[];
}

/** What the statements of a batch are made from. */
export interface BatchContext {
  readonly before: Contents;
  readonly plan: BatchPlan;
  readonly cache: SeriesCache;
  /** The day of appending, `2026-11-21`. */
  readonly day: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Makes the statements of a batch. Asks for series that are not remembered, within the transaction. */
export async function prepareWrite(session: Session, context: BatchContext): Promise<BatchWrite> {
  const { before, plan, day } = context;
  const events = plan.accepted.map(splitEvent);
  const numbered = await numberSeries(session, context, events);
  const segment = nextSegment(context, events);
  const state: StreamState = {
    ...before.state,
    head: plan.head + plan.accepted.length,
    batch: before.state.batch + 1,
    chain: segment?.chain ?? plan.chain,
    seriesHead: numbered.head,
    ...(plan.lastWindowEnd !== undefined && { lastWindowEnd: plan.lastWindowEnd }),
  };
  const { stream } = state;
  const statements = [
    ...(numbered.added.length > 0 ? [insertSeries(stream, day, numbered.added)] : []),
    ...(numbered.touched.length > 0
      ? [
          touchSeries(
            stream,
            day,
            numbered.touched.map(({ number }) => number),
          ),
        ]
      : []),
    ...(segment === undefined
      ? []
      : [
          insertEvents(context, events, numbered.numbers),
          insertBatch(context, segment, events),
          upsertSegment(stream, segment),
        ]),
    ...recordStatements(stream, plan.records),
    updateStream(state),
    ...cursorStatements(stream, plan.cursors, before),
  ];
  return {
    statements,
    contents: { ...withSegment(before, segment), state, cursors: cursorsAfter(before, plan) },
    series: [...numbered.added, ...numbered.touched.map((one) => ({ ...one, lastDay: day }))],
  };
}

interface Numbering {
  /** The number of each event's series. */
  readonly numbers: readonly number[];
  readonly added: readonly NumberedSeries[];
  readonly touched: readonly NumberedSeries[];
  /** Number of the newest series. */
  readonly head: number;
}

async function numberSeries(
  session: Session,
  { before, cache, day }: BatchContext,
  events: readonly SplitEvent[],
): Promise<Numbering> {
  const { stream, seriesHead } = before.state;
  const keys = events.map(({ series }) => seriesKey(series));
  const missing = [...new Set(keys.filter((key) => cache.byKey(key) === undefined))];
  const known = new Map<string, NumberedSeries>();
  for (const key of keys) {
    const one = cache.byKey(key);
    if (one !== undefined) known.set(key, one);
  }
  if (missing.length > 0) {
    const [found] = await session.run([selectByKey(stream, missing)]);
    for (const row of found?.rows ?? []) {
      const one = seriesOf(row);
      const key = (row['key'] ?? '').replaceAll('-', '');
      if (seriesKey(one) !== key) throw damage('series', `series ${one.number} is damaged`);
      known.set(key, one);
    }
  }
  const added: NumberedSeries[] = [];
  for (const [index, key] of keys.entries()) {
    const series = events[index]?.series;
    if (known.has(key) || series === undefined) continue;
    const one = { ...series, number: seriesHead + added.length + 1, lastDay: day };
    known.set(key, one);
    added.push(one);
  }
  return {
    numbers: keys.map((key) => known.get(key)?.number ?? 0),
    added,
    touched: [...known.values()].filter(({ lastDay }) => lastDay < day),
    head: seriesHead + added.length,
  };
}

function insertEvents(
  { before, plan, day }: BatchContext,
  events: readonly SplitEvent[],
  numbers: readonly number[],
): Statement {
  const first = plan.head + 1;
  const rows = events.map(({ row }) => row);
  return {
    text: `insert into meterfeed.event (day, stream, seq, window_start, window_end, recorded_at,
        series, crc, id, quantity, foreign_id, extra)
      select $1, $2, * from unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
        $7::integer[], $8::integer[], $9::uuid[], $10::numeric[], $11::text[], $12::json[])`,
    values: [
      day,
      before.state.stream,
      rows.map((_, index) => first + index),
      rows.map(({ windowStart }) => windowStart),
      rows.map(({ windowEnd }) => windowEnd),
      rows.map(({ recordedAt }) => recordedAt),
      numbers,
      plan.accepted.map(({ text }, index) => eventChecksum(text, first + index)),
      rows.map(({ id }) => id),
      rows.map(({ quantity }) => quantity),
      rows.map(({ foreignId }) => foreignId ?? null),
      rows.map(({ extra }) => extraText(extra)),
    ],
  };
}

/** The day's segment with the accepted events; undefined when there are none. */
function nextSegment(
  { before, plan, day, now }: BatchContext,
  events: readonly SplitEvent[],
): DaySegment | undefined {
  const { accepted, head, chain } = plan;
  if (accepted.length === 0) return undefined;
  const current = before.segments.findLast((segment) => segment.day === day);
  const { bytes } = encodeStoredEvents(
    head + 1,
    accepted.map(({ text }) => text),
  );
  return {
    day,
    firstSequence: current?.firstSequence ?? head + 1,
    lastSequence: head + accepted.length,
    starts: union(current?.starts, rangeOf(events.map(({ row }) => row.windowStart))),
    ends: union(current?.ends, rangeOf(events.map(({ row }) => row.windowEnd))),
    foreignIds:
      (current?.foreignIds ?? false) || accepted.some(({ event }) => !isDerived(event.id)),
    openedAt: current?.openedAt ?? now,
    firstChain: current?.firstChain ?? chain,
    chain: nextChain(chain).update(bytes).digest('hex'),
  };
}

function rangeOf(times: readonly number[]): TimeRange {
  return {
    from: times.reduce((a, b) => Math.min(a, b), Number.MAX_SAFE_INTEGER),
    to: times.reduce((a, b) => Math.max(a, b), Number.MIN_SAFE_INTEGER),
  };
}

function union(a: TimeRange | undefined, b: TimeRange): TimeRange {
  if (a === undefined) return b;
  return { from: Math.min(a.from, b.from), to: Math.max(a.to, b.to) };
}

function insertBatch(
  { before, plan, now }: BatchContext,
  { day, lastSequence, chain }: DaySegment,
  events: readonly SplitEvent[],
): Statement {
  const starts = rangeOf(events.map(({ row }) => row.windowStart));
  return {
    text: `insert into meterfeed.batch (stream, day, first_seq, last_seq, min_start, max_start,
        appended_at, chain) values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    values: [
      before.state.stream,
      day,
      plan.head + 1,
      lastSequence,
      starts.from,
      starts.to,
      now,
      chain,
    ],
  };
}

function withSegment(before: Contents, segment: DaySegment | undefined): Contents {
  if (segment === undefined) return before;
  const others = before.segments.filter(({ day }) => day !== segment.day);
  return { ...before, segments: [...others, segment] };
}

function cursorsAfter(before: Contents, { cursors }: BatchPlan): ReadonlyMap<string, Cursor> {
  const after = new Map(before.cursors);
  for (const [destination, cursor] of cursors) {
    if (cursor === undefined) after.delete(destination);
    else after.set(destination, cursor);
  }
  return after;
}

/** The contents with the cursors that the server has answered with. */
export function withCursorRows(contents: Contents, rows: readonly Row[]): Contents {
  if (rows.length === 0) return contents;
  const cursors = new Map(contents.cursors);
  for (const cursor of rows.map(cursorOf)) cursors.set(cursor.destination, cursor);
  return { ...contents, cursors };
}
