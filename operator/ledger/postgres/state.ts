import { damage } from '../failures.ts';
import type { Cursor } from '../ledger.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { formatInstant } from '../../model/window.ts';
import type { Row, Session, Statement } from './session.ts';
import { rollback } from './transaction.ts';

/** A closed range of times, milliseconds since the epoch. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** What is known of the events that a stream was given on one day, without reading them. */
export interface DaySegment {
  /** `2026-11-21`, UTC; never before that of the segment before it. */
  readonly day: string;
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** Window starts of its events. */
  readonly starts: TimeRange;
  /** Window ends of its events. */
  readonly ends: TimeRange;
  /** Whether any of its ids is not derived from the event. */
  readonly foreignIds: boolean;
  /** Append time of its first event, milliseconds since the epoch. */
  readonly openedAt: number;
  readonly firstChain: string;
  readonly chain: string;
}

/** The row of a stream. */
export interface StreamState {
  readonly stream: number;
  readonly ledgerId: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly epoch: number;
  /** The process that led last; empty where none has. */
  readonly owner: string;
  readonly head: number;
  /** Number of the last batch, over the whole life of the stream. */
  readonly batch: number;
  readonly chain: string;
  /** Number of the newest series. */
  readonly seriesHead: number;
  /** The sequence number before the oldest stored event. */
  readonly lowWater: number;
  /** The end of the newest window of which anything was deleted, milliseconds since the epoch. */
  readonly horizon: number;
  readonly lastWindowEnd?: number;
}

/** What is kept in memory of a stream; only its owner changes it, but for deletion. */
export interface Contents {
  readonly state: StreamState;
  /** Ascending. */
  readonly segments: readonly DaySegment[];
  readonly cursors: ReadonlyMap<string, Cursor>;
}

export const STREAM_COLUMNS = [
  'stream, ledger_id, created_at, epoch, owner, head, batch, chain, series_head',
  'low_water, horizon, last_window_end',
].join(', ');

/** The state in a row of {@link STREAM_COLUMNS}. */
export function stateOf(row: Row): StreamState {
  const end = row['last_window_end'];
  return {
    stream: Number(row['stream']),
    ledgerId: row['ledger_id'] ?? '',
    createdAt: Number(row['created_at']),
    epoch: Number(row['epoch']),
    owner: row['owner'] ?? '',
    head: Number(row['head']),
    batch: Number(row['batch']),
    chain: row['chain'] ?? '',
    seriesHead: Number(row['series_head']),
    lowWater: Number(row['low_water']),
    horizon: Number(row['horizon']),
    ...(typeof end === 'string' && { lastWindowEnd: Number(end) }),
  };
}

function segmentsStatement(stream: number): Statement {
  return {
    text: `select day::text, first_seq, last_seq, min_start, max_start, min_end, max_end,
      foreign_ids, opened_at, first_chain, chain
      from meterfeed.segment where stream = $1 order by day`,
    values: [stream],
  };
}

function segmentOf(row: Row): DaySegment {
  return {
    day: row['day'] ?? '',
    firstSequence: Number(row['first_seq']),
    lastSequence: Number(row['last_seq']),
    starts: { from: Number(row['min_start']), to: Number(row['max_start']) },
    ends: { from: Number(row['min_end']), to: Number(row['max_end']) },
    foreignIds: row['foreign_ids'] === 't',
    openedAt: Number(row['opened_at']),
    firstChain: row['first_chain'] ?? '',
    chain: row['chain'] ?? '',
  };
}

/** The cursor in a row with `destination, seq, window_end, retired_at`. */
export function cursorOf(row: Row): Cursor {
  const { window_end: end, retired_at: retired } = row;
  return {
    destination: row['destination'] ?? '',
    sequence: Number(row['seq']),
    ...omitUndefined({
      windowEnd: typeof end === 'string' ? formatInstant(Number(end)) : undefined,
      retiredAt: typeof retired === 'string' ? Number(retired) : undefined,
    }),
  };
}

/** All that is kept in memory of a stream, as it is at one moment. Not within a transaction. */
export async function readContentsNow(session: Session, stream: number): Promise<Contents> {
  await session.run([{ text: 'begin isolation level repeatable read read only' }]);
  const contents = await readContents(session, stream);
  await rollback(session);
  return contents;
}

/** All that is kept in memory of a stream, as the transaction sees it, which holds its row or one moment. */
export async function readContents(session: Session, stream: number): Promise<Contents> {
  const [streams, segments, cursors] = await session.run([
    {
      text: `select ${STREAM_COLUMNS} from meterfeed.stream where stream = $1`,
      values: [stream],
    },
    segmentsStatement(stream),
    {
      text: `select destination, seq, window_end, retired_at from meterfeed.cursor
        where stream = $1 order by destination`,
      values: [stream],
    },
  ]);
  const row = streams?.rows[0];
  if (row === undefined) throw damage('stream', `it is gone: "${stream}"`);
  const found = cursors?.rows.map(cursorOf) ?? [];
  return {
    state: stateOf(row),
    segments: segments?.rows.map(segmentOf) ?? [],
    cursors: new Map(found.map((cursor) => [cursor.destination, cursor])),
  };
}
