import type { Cursor } from '../ledger.ts';
import type { Statement } from './session.ts';
import type { Contents, DaySegment, StreamState } from './state.ts';

/** Stores what is known of a day. */
export function upsertSegment(stream: number, segment: DaySegment): Statement {
  const { starts, ends } = segment;
  return {
    text: `insert into meterfeed.segment (stream, day, first_seq, last_seq, min_start, max_start,
        min_end, max_end, foreign_ids, opened_at, first_chain, chain)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
      on conflict (stream, day) do update set last_seq = excluded.last_seq,
        min_start = excluded.min_start, max_start = excluded.max_start,
        min_end = excluded.min_end, max_end = excluded.max_end,
        foreign_ids = excluded.foreign_ids, chain = excluded.chain`,
    values: [
      stream,
      segment.day,
      segment.firstSequence,
      segment.lastSequence,
      starts.from,
      starts.to,
      ends.from,
      ends.to,
      segment.foreignIds,
      segment.openedAt,
      segment.firstChain,
      segment.chain,
    ],
  };
}

/** Sets and deletes records. */
export function recordStatements(
  stream: number,
  records: ReadonlyMap<string, string | undefined>,
): readonly Statement[] {
  const set = [...records].filter(([, value]) => value !== undefined);
  const gone = [...records].filter(([, value]) => value === undefined).map(([key]) => key);
  const upsert: Statement = {
    text: `insert into meterfeed.record (stream, key, value)
      select $1, * from unnest($2::text[], $3::text[])
      on conflict (stream, key) do update set value = excluded.value`,
    values: [stream, set.map(([key]) => key), set.map(([, value]) => value)],
  };
  const remove: Statement = {
    text: 'delete from meterfeed.record where stream = $1 and key = any($2::text[])',
    values: [stream, gone],
  };
  return [...(set.length > 0 ? [upsert] : []), ...(gone.length > 0 ? [remove] : [])];
}

/** Stores the state of a stream; an error unless its epoch is the one in the state. */
export function updateStream(state: StreamState): Statement {
  return {
    text: `update meterfeed.stream set head = $3, batch = $4, chain = $5, series_head = $6,
      last_window_end = $7 where stream = $1 and epoch = $2`,
    values: [
      state.stream,
      state.epoch,
      state.head,
      state.batch,
      state.chain,
      state.seriesHead,
      state.lastWindowEnd ?? null,
    ],
    rows: 1,
  };
}

/** The end of the window at a cursor is what the event there says. */
export function cursorStatements(
  stream: number,
  cursors: ReadonlyMap<string, Cursor | undefined>,
  { segments }: Contents,
): readonly Statement[] {
  return [...cursors].map(([destination, cursor]) => {
    if (cursor === undefined) {
      return {
        text: 'delete from meterfeed.cursor where stream = $1 and destination = $2',
        values: [stream, destination],
      };
    }
    const { sequence, retiredAt = null, windowEnd } = cursor;
    const at = segments.find(({ lastSequence }) => lastSequence >= sequence);
    return {
      text: `insert into meterfeed.cursor (stream, destination, seq, retired_at, window_end)
        values ($1, $2, $3::bigint, $4,
          coalesce((select window_end from meterfeed.event
            where day = $5::date and stream = $1 and seq = $3::bigint), $6::bigint))
        on conflict (stream, destination) do update set seq = excluded.seq,
          retired_at = excluded.retired_at, window_end = excluded.window_end
        returning destination, seq, window_end, retired_at`,
      values: [
        stream,
        destination,
        sequence,
        retiredAt,
        at?.day ?? null,
        windowEnd === undefined ? null : Date.parse(windowEnd),
      ],
    };
  });
}
