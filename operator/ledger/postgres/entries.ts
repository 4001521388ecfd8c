import { isEvidence } from '../evidence-keys.ts';
import type { Cursor } from '../ledger.ts';
import type { DatabaseRow, Statement } from './session.ts';
import { cursorOf } from './state.ts';

/** The table of a stream that contains a record key or key prefix. */
export function recordTable(schema: string, key: string): string {
  return `${schema}.${isEvidence(key) ? 'evidence' : 'record'}`;
}

/** Statements that set and delete records of a schema. */
export function recordStatements(
  schema: string,
  records: ReadonlyMap<string, string | undefined>,
): readonly Statement[] {
  const tables = Map.groupBy(records, ([key]) => recordTable(schema, key));
  return [...tables].flatMap(([table, changes]) => changeRecords(table, changes));
}

/** Statements that set and delete rows of a key-value table. */
export function changeRecords(
  table: string,
  records: readonly (readonly [key: string, value: string | undefined])[],
): readonly Statement[] {
  const set = records.filter(([, value]) => value !== undefined);
  const gone = records.filter(([, value]) => value === undefined).map(([key]) => key);
  const upsert: Statement = {
    text: `insert into ${table} (key, value) select * from unnest($1::text[], $2::text[])
      on conflict (key) do update set value = excluded.value`,
    values: [set.map(([key]) => key), set.map(([, value]) => value)],
  };
  const remove: Statement = {
    text: `delete from ${table} where key = any($1::text[])`,
    values: [gone],
  };
  return [...(set.length > 0 ? [upsert] : []), ...(gone.length > 0 ? [remove] : [])];
}

/**
 * Statements that set and delete cursors of a schema. `events` is the table of the events that they
 * point to; the server fills in and returns the window end of the event at each cursor.
 */
export function cursorStatements(
  schema: string,
  events: string,
  cursors: ReadonlyMap<string, Cursor | undefined>,
): readonly Statement[] {
  return [...cursors].map(([destination, cursor]) => {
    if (cursor === undefined) {
      return {
        text: `delete from ${schema}.cursor where destination = $1`,
        values: [destination],
      };
    }
    const { sequence, retiredAt = null, windowEnd } = cursor;
    return {
      text: `insert into ${schema}.cursor (destination, seq, retired_at, window_end)
        values ($1, $2::bigint, $3, coalesce(
          (select (date_part('epoch', window_end) * 1000)::bigint from ${events} where seq = $2::bigint),
          $4::bigint))
        on conflict (destination) do update set seq = excluded.seq,
          retired_at = excluded.retired_at, window_end = excluded.window_end
        returning destination, seq, window_end, retired_at`,
      values: [
        destination,
        sequence,
        retiredAt,
        windowEnd === undefined ? null : Date.parse(windowEnd),
      ],
    };
  });
}

/** The cursors after a write, with the changed ones as the server returned them. */
export function cursorsAfter(
  before: ReadonlyMap<string, Cursor>,
  changed: ReadonlyMap<string, Cursor | undefined>,
  answered: readonly DatabaseRow[],
): ReadonlyMap<string, Cursor> {
  const after = new Map(before);
  for (const [destination, cursor] of changed) {
    if (cursor === undefined) after.delete(destination);
  }
  for (const cursor of answered.map(cursorOf)) after.set(cursor.destination, cursor);
  return after;
}
