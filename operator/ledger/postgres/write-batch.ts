import { encodeStoredEvents, nextChain } from '../event-chain.ts';
import type { Cursor } from '../ledger.ts';
import { type EventRow, isDerived, textColumns } from './event-rows.ts';
import {
  cursorStatements,
  recordStatements,
  updateStream,
  upsertSegment,
} from './batch-statements.ts';
import { numberSeries } from './number-series.ts';
import type { BatchPlan } from './plan-batch.ts';
import { eventChecksum } from './reading.ts';
import type { NumberedSeries, SeriesCache } from './series.ts';
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
  /** The series that it changes. */
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
  const { before, plan, cache, day } = context;
  const { stream, seriesHead } = before.state;
  const place = { stream, day, head: seriesHead, cache };
  const numbered = await numberSeries(session, place, plan.accepted);
  const { rows } = numbered;
  const segment = nextSegment(context, rows);
  const state: StreamState = {
    ...before.state,
    head: plan.head + plan.accepted.length,
    batch: before.state.batch + 1,
    chain: segment?.chain ?? plan.chain,
    seriesHead: numbered.head,
    ...(plan.lastWindowEnd !== undefined && { lastWindowEnd: plan.lastWindowEnd }),
  };
  const statements = [
    ...numbered.statements,
    ...(segment === undefined
      ? []
      : [
          insertEvents(context, rows, numbered.numbers),
          insertBatch(context, segment, rows),
          upsertSegment(stream, segment),
        ]),
    ...recordStatements(stream, plan.records),
    updateStream(state),
    ...cursorStatements(stream, plan.cursors, before),
  ];
  return {
    statements,
    contents: { ...withSegment(before, segment), state, cursors: cursorsAfter(before, plan) },
    series: numbered.changed,
  };
}

function insertEvents(
  { before, plan, day }: BatchContext,
  rows: readonly EventRow[],
  numbers: readonly number[],
): Statement {
  const first = plan.head + 1;
  const texts = rows.map(textColumns);
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
      texts.map(([foreignId]) => foreignId),
      texts.map(([, extra]) => extra),
    ],
  };
}

/** The day's segment with the accepted events; undefined when there are none. */
function nextSegment(
  { before, plan, day, now }: BatchContext,
  rows: readonly EventRow[],
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
    starts: union(current?.starts, rangeOf(rows.map(({ windowStart }) => windowStart))),
    ends: union(current?.ends, rangeOf(rows.map(({ windowEnd }) => windowEnd))),
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
  rows: readonly EventRow[],
): Statement {
  const starts = rangeOf(rows.map(({ windowStart }) => windowStart));
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
