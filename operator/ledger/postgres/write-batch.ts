import type { Cursor } from '../ledger.ts';
import { StoreEvents } from './batch-rows.ts';
import { isDerived } from './event-rows.ts';
import {
  cursorStatements,
  recordStatements,
  updateStream,
  upsertSegment,
} from './batch-statements.ts';
import { SeriesNumbering } from './number-series.ts';
import type { Matches } from './match-series.ts';
import type { BatchPlan } from './plan-batch.ts';
import type { SeriesCache } from './series-cache.ts';
import type { NumberedSeries } from './series.ts';
import type { Row, Session, Statement } from './session.ts';
import { updateWriter } from './writers.ts';
import {
  cursorOf,
  type Contents,
  type DaySegment,
  type StreamState,
  type TimeRange,
} from './state.ts';

/** What holds once a batch is committed. */
export interface BatchWrite {
  readonly contents: Contents;
  /** The series that it changes. */
  readonly series: readonly NumberedSeries[];
}

/** What the statements of a batch are made from. */
export interface BatchContext {
  readonly before: Contents;
  readonly plan: BatchPlan;
  readonly cache: SeriesCache;
  /** Those of the first offered events, which were made before. */
  readonly matches: Matches;
  /** Who this process is among those that write the stream. */
  readonly owner: string;
  /** The day of appending, `2026-11-21`. */
  readonly day: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Writes a batch but for the commit. Asks for series that are not remembered, within the transaction. */
export async function writeBatch(session: Session, context: BatchContext): Promise<BatchWrite> {
  const { before, plan, cache, matches, day, owner } = context;
  const { stream, seriesHead } = before.state;
  const numbering = new SeriesNumbering({ stream, day, head: seriesHead, cache, matches });
  const stored = await storeEvents(session, context, numbering);
  const numbered = numbering.changes();
  const segment = stored?.segment;
  const state: StreamState = {
    ...before.state,
    head: plan.head + plan.accepted.length,
    batch: before.state.batch + 1,
    chain: segment?.chain ?? plan.chain,
    seriesHead: numbered.head,
    ...(plan.lastWindowEnd !== undefined && { lastWindowEnd: plan.lastWindowEnd }),
  };
  const marks = session.run([
    ...numbered.statements,
    ...(stored === undefined
      ? []
      : [insertBatch(context, stored), upsertSegment(stream, stored.segment)]),
    ...recordStatements(stream, plan.records),
    updateStream(state),
    updateWriter(stream, owner, state.batch),
    ...cursorStatements(stream, plan.cursors, before),
  ]);
  const [answers] = await Promise.all([marks, stored?.answer]);
  const contents = { ...withSegment(before, segment), state, cursors: cursorsAfter(before, plan) };
  return {
    contents: withCursorRows(
      contents,
      answers.flatMap(({ rows }) => rows),
    ),
    series: numbered.changed,
  };
}

/** Events on their way to the server. */
interface SentEvents {
  /** The answer, which is not waited for: everything else goes out meanwhile. */
  readonly answer: Promise<unknown>;
  readonly segment: DaySegment;
  /** When their windows start. */
  readonly starts: TimeRange;
}

/**
 * Sends the accepted events, if there are any, and says what is then known of their day. Asks for series that are not
 * remembered, within the transaction.
 */
async function storeEvents(
  session: Session,
  context: BatchContext,
  numbering: SeriesNumbering,
): Promise<SentEvents | undefined> {
  const { before, plan, day } = context;
  if (plan.accepted.length === 0) return undefined;
  const events = new StoreEvents({
    day,
    stream: before.state.stream,
    firstSequence: plan.head + 1,
    chain: plan.chain,
    events: plan.accepted,
    numbering,
  });
  const answers: Promise<unknown>[] = [];
  while (!events.areSent()) {
    const statement = events.next();
    if (statement !== undefined) answers.push(session.run([statement]));
    else await Promise.all([...answers, numbering.ask(session, events.left())]);
  }
  const answer = Promise.all(answers);
  const starts = rangeOf(events.rows().map(({ windowStart }) => windowStart));
  return { answer, starts, segment: nextSegment(context, events, starts) };
}

/** The day's segment with the accepted events. */
function nextSegment(
  { before, plan, day, now }: BatchContext,
  events: StoreEvents,
  starts: TimeRange,
): DaySegment {
  const { accepted, head } = plan;
  const current = before.segments.findLast((segment) => segment.day === day);
  return {
    day,
    firstSequence: current?.firstSequence ?? head + 1,
    lastSequence: head + accepted.length,
    starts: union(current?.starts, starts),
    ends: union(current?.ends, rangeOf(events.rows().map(({ windowEnd }) => windowEnd))),
    foreignIds:
      (current?.foreignIds ?? false) || accepted.some(({ event }) => !isDerived(event.id)),
    openedAt: current?.openedAt ?? now,
    firstChain: current?.firstChain ?? plan.chain,
    chain: events.chain(),
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
  { segment: { day, lastSequence, chain }, starts }: SentEvents,
): Statement {
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

/** The contents with the cursors that the server has answered with: it knows the ends of their windows. */
function withCursorRows(contents: Contents, rows: readonly Row[]): Contents {
  if (rows.length === 0) return contents;
  const cursors = new Map(contents.cursors);
  for (const cursor of rows.map(cursorOf)) cursors.set(cursor.destination, cursor);
  return { ...contents, cursors };
}
