import type { EncodedEvent } from '../writer.ts';
import { chainBatch } from '../batch-chain.ts';
import { cursorsAfter, cursorStatements, recordStatements } from './entries.ts';
import { insertEvents } from './event-row.ts';
import { timeOf } from './instants.ts';
import type { StreamBatchPlan } from './plan-batch.ts';
import type { Session, Statement } from './session.ts';
import type { StreamContents, Segment, StreamState } from './state.ts';
import { createPartition, dayOf, weekOf } from './weeks.ts';
import type { TimeRange } from '../../model/window.ts';

/** Input for the statements of a batch. */
export interface BatchContext {
  readonly schema: string;
  readonly before: StreamContents;
  readonly plan: StreamBatchPlan;
  readonly epoch: number;
  readonly lastBatch: number;
  /** The time of appending, milliseconds since the epoch. */
  readonly now: number;
}

/** Writes a batch but for the commit. Gives the contents that hold afterwards. */
export async function writeBatch(session: Session, context: BatchContext): Promise<StreamContents> {
  const { schema, before, plan, epoch, lastBatch } = context;
  const { accepted, lastWindowEnd } = plan;
  const stored = accepted.length === 0 ? undefined : storeEvents(context);
  const state: StreamState = {
    ...before.state,
    epoch,
    lastBatch,
    head: plan.head + accepted.length,
    chain: stored?.chain ?? plan.chain,
    ...(lastWindowEnd !== undefined && { lastWindowEnd }),
  };
  const answers = await session.run([
    ...(stored?.statements ?? []),
    ...skipStatements(context),
    ...recordStatements(schema, plan.records),
    updateStream(schema, state),
    ...cursorStatements(schema, `${schema}.event`, plan.cursors),
  ]);
  const moved = answers.slice(answers.length - plan.cursors.size).flatMap(({ rows }) => rows);
  return {
    state,
    segments: stored === undefined ? before.segments : withSegment(before, stored.segment),
    cursors: cursorsAfter(before.cursors, plan.cursors, moved),
  };
}

function storeEvents({ schema, before, plan, now }: BatchContext): {
  readonly statements: readonly Statement[];
  readonly segment: Segment;
  readonly chain: string;
} {
  const { accepted, head } = plan;
  const firstSequence = head + 1;
  const lastSequence = head + accepted.length;
  const newest = before.segments.at(-1);
  // Weeks ascend with sequence numbers, even if the clock goes back.
  const week = newest !== undefined && newest.week > weekOf(now) ? newest.week : weekOf(now);
  const storedOn = dayOf(now) > week ? dayOf(now) : week;
  const current = newest?.week === week && newest.lastSequence === head ? newest : undefined;
  const starts = rangeOf(accepted, 'window_start');
  const ends = rangeOf(accepted, 'window_end');
  const segment: Segment = {
    firstSequence: current?.firstSequence ?? firstSequence,
    lastSequence,
    week,
    starts: union(current?.starts, starts),
    ends: union(current?.ends, ends),
    openedAt: current?.openedAt ?? now,
  };
  const batch = chainBatch(plan.chain, firstSequence, before.state.linkedFrom);
  for (const [index, { event, text }] of accepted.entries()) {
    batch.add(firstSequence + index, event.tenant, text);
  }
  const { chain, root } = batch.end();
  const hasPartition = before.segments.some((other) => other.week === week);
  return {
    segment,
    chain,
    statements: [
      ...(hasPartition ? [] : [{ text: createPartition(schema, week) }]),
      insertEvents(schema, storedOn, firstSequence, accepted),
      insertBatch(schema, { lastSequence, firstSequence, starts, chain, root }, now),
      upsertSegment(schema, segment),
    ],
  };
}

function insertBatch(
  schema: string,
  batch: {
    readonly firstSequence: number;
    readonly lastSequence: number;
    readonly starts: TimeRange;
    readonly chain: string;
    readonly root?: string;
  },
  now: number,
): Statement {
  const { lastSequence, firstSequence, starts, chain, root = null } = batch;
  return {
    text: `insert into ${schema}.batch (last_seq, first_seq, min_start, max_start, appended_at, chain,
        root)
      values ($1, $2, $3, $4, $5, $6, $7)`,
    values: [lastSequence, firstSequence, starts.from, starts.to, now, chain, root],
  };
}

/** Stores skipped numbers as a batch without events, whose chain value the next batch continues. */
function skipStatements({ schema, before, plan, now }: BatchContext): readonly Statement[] {
  const { head } = before.state;
  if (plan.head === head) return [];
  const starts = rangeOf([], 'window_start');
  const batch = { firstSequence: head + 1, lastSequence: plan.head, starts, chain: plan.chain };
  return [insertBatch(schema, batch, now)];
}

function upsertSegment(schema: string, segment: Segment): Statement {
  const { firstSequence, lastSequence, week, starts, ends, openedAt } = segment;
  return {
    text: `insert into ${schema}.segment (first_seq, last_seq, week, min_start, max_start, min_end,
        max_end, opened_at)
      values ($1, $2, $3, $4, $5, $6, $7, $8)
      on conflict (first_seq) do update set last_seq = excluded.last_seq,
        min_start = excluded.min_start, max_start = excluded.max_start,
        min_end = excluded.min_end, max_end = excluded.max_end`,
    values: [
      firstSequence,
      lastSequence,
      week,
      starts.from,
      starts.to,
      ends.from,
      ends.to,
      openedAt,
    ],
  };
}

/** Stores the state of a stream; fails unless the stored epoch is that of the state. */
function updateStream(schema: string, state: StreamState): Statement {
  const { epoch, head, lastBatch, chain, lastWindowEnd = null } = state;
  return {
    text: `update ${schema}.stream set head = $2, last_batch = $3, chain = $4, last_window_end = $5
      where epoch = $1`,
    values: [epoch, head, lastBatch, chain, lastWindowEnd],
    rows: 1,
  };
}

function withSegment({ segments }: StreamContents, segment: Segment): readonly Segment[] {
  const others = segments.filter(({ firstSequence }) => firstSequence !== segment.firstSequence);
  return [...others, segment];
}

function rangeOf(events: readonly EncodedEvent[], field: 'window_start' | 'window_end'): TimeRange {
  let from = Number.MAX_SAFE_INTEGER;
  let to = Number.MIN_SAFE_INTEGER;
  for (const { event } of events) {
    const time = timeOf(event[field]);
    from = Math.min(from, time);
    to = Math.max(to, time);
  }
  return { from, to };
}

function union(a: TimeRange | undefined, b: TimeRange): TimeRange {
  if (a === undefined) return b;
  return { from: Math.min(a.from, b.from), to: Math.max(a.to, b.to) };
}
