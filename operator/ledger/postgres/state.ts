import { formatInstant, type TimeRange } from '../../model/window.ts';
import { damage } from '../failures.ts';
import type { Cursor } from '../ledger.ts';
import type { RunQuery } from './readers.ts';
import type { DatabaseRow, Session, Statement } from './session.ts';
import { rollback } from './transaction.ts';

/** Summary of consecutive events in one week, known without reading them. */
export interface Segment {
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** Monday of the week of appending, `2026-11-23`, UTC; never before the previous segment's. */
  readonly week: string;
  /** The first and the last window start of its events. */
  readonly starts: TimeRange;
  /** The first and the last window end of its events. */
  readonly ends: TimeRange;
  /** Append time of its first event, milliseconds since the epoch. */
  readonly openedAt: number;
}

/** The row of a stream. Times are milliseconds since the epoch. */
export interface StreamState {
  readonly ledgerId: string;
  readonly source: string;
  readonly region: string;
  readonly createdAt: number;
  readonly epoch: number;
  /** The process that may write. */
  readonly owner: string;
  readonly head: number;
  /** The sequence number before the oldest stored event. */
  readonly lowWater: number;
  /** Window end of the newest deleted event. */
  readonly horizon: number;
  /** Number of the last write since the stream was created. */
  readonly lastBatch: number;
  /** The chain value at the head, hex. */
  readonly chain: string;
  /**
   * Batches that begin at this sequence number or later are chained by their trees
   * (docs/reference/ledger-format.md#the-link).
   */
  readonly linkedFrom: number;
  readonly lastWindowEnd?: number;
  /** Source of an unfinished copy; absent once the copy is complete. */
  readonly copiedFrom?: string;
}

/** The parts of a stream that a process keeps in memory. */
export interface StreamContents {
  readonly state: StreamState;
  /** Ascending. */
  readonly segments: readonly Segment[];
  readonly cursors: ReadonlyMap<string, Cursor>;
}

/** A stream for reading: its contents at one moment and a connection to its tables. */
export interface StreamView {
  readonly schema: string;
  readonly contents: StreamContents;
  readonly query: RunQuery;
}

export const STREAM_COLUMNS = [
  'ledger_id, source, region, created_at, epoch, owner, head, low_water, horizon, last_batch',
  'chain, linked_from, last_window_end, copied_from',
].join(', ');

/** The state in a row of {@link STREAM_COLUMNS}. */
export function stateOf(row: DatabaseRow): StreamState {
  const { last_window_end: end, copied_from: copiedFrom } = row;
  return {
    ledgerId: row['ledger_id'] ?? '',
    source: row['source'] ?? '',
    region: row['region'] ?? '',
    createdAt: Number(row['created_at']),
    epoch: Number(row['epoch']),
    owner: row['owner'] ?? '',
    head: Number(row['head']),
    lowWater: Number(row['low_water']),
    horizon: Number(row['horizon']),
    lastBatch: Number(row['last_batch']),
    chain: row['chain'] ?? '',
    linkedFrom: Number(row['linked_from']),
    lastWindowEnd: typeof end === 'string' ? Number(end) : undefined,
    copiedFrom: copiedFrom ?? undefined,
  };
}

function segmentOf(row: DatabaseRow): Segment {
  return {
    firstSequence: Number(row['first_seq']),
    lastSequence: Number(row['last_seq']),
    week: row['week'] ?? '',
    starts: { from: Number(row['min_start']), to: Number(row['max_start']) },
    ends: { from: Number(row['min_end']), to: Number(row['max_end']) },
    openedAt: Number(row['opened_at']),
  };
}

/** The cursor in a row with `destination, seq, window_end, retired_at`. */
export function cursorOf(row: DatabaseRow): Cursor {
  const { window_end: end, retired_at: retired } = row;
  return {
    destination: row['destination'] ?? '',
    sequence: Number(row['seq']),
    windowEnd: typeof end === 'string' ? formatInstant(Number(end)) : undefined,
    retiredAt: typeof retired === 'string' ? Number(retired) : undefined,
  };
}

/** Statements that read a stream's row, its segments, and the given statement's cursors. */
function contentsStatements(schema: string, cursors: Statement): readonly Statement[] {
  return [
    { text: `select ${STREAM_COLUMNS} from ${schema}.stream`, values: [] },
    {
      text: `select first_seq, last_seq, week::text, min_start, max_start, min_end, max_end, opened_at
        from ${schema}.segment order by first_seq`,
      values: [],
    },
    cursors,
  ];
}

/** Selects the cursors of a stream's own schema. */
export function cursorsStatement(schema: string): Statement {
  const columns = 'destination, seq, window_end, retired_at';
  return { text: `select ${columns} from ${schema}.cursor order by destination`, values: [] };
}

/** Reads the contents within a transaction that has locked the stream's row or sees one moment. */
export async function readContents(
  session: Session,
  schema: string,
  cursors = cursorsStatement(schema),
): Promise<StreamContents> {
  const [streams, segments, found] = await session.run(contentsStatements(schema, cursors));
  const row = streams?.rows[0];
  if (row === undefined) throw damage('stream', `the row of the stream is missing: "${schema}"`);
  const list = found?.rows.map(cursorOf) ?? [];
  return {
    state: stateOf(row),
    segments: segments?.rows.map(segmentOf) ?? [],
    cursors: new Map(list.map((cursor) => [cursor.destination, cursor])),
  };
}

/** Reads the contents at one moment, outside of any transaction. */
export async function readContentsNow(
  session: Session,
  schema: string,
  cursors?: Statement,
): Promise<StreamContents> {
  await session.run([{ text: 'begin isolation level repeatable read read only' }]);
  const contents = await readContents(session, schema, cursors);
  await rollback(session);
  return contents;
}
