import type { UsageEvent } from '../../model/event.ts';
import { damage } from '../failures.ts';
import type { LedgerFailure } from '../ledger.ts';
import type { EncodedEvent } from '../writer.ts';
import { EVENT_COLUMNS, isDerived, readRow, storedId } from './event-row.ts';
import { timeOf } from './instants.ts';
import type { DatabaseRow, Statement } from './session.ts';
import type { Segment } from './state.ts';
import { dayOf, endOfWeek } from './weeks.ts';

/** The stored events with the ids of a batch, by id; a failure for an unreadable event. */
export type StoredById = ReadonlyMap<string, UsageEvent | LedgerFailure>;

/**
 * The statements that look up the ids of events, one for each week that can contain any. A derived
 * id can only be in the weeks of its window; any other id can be in every week.
 */
export function lookUpStatements(
  schema: string,
  offered: readonly EncodedEvent[],
  segments: readonly Segment[],
): readonly Statement[] {
  if (offered.length === 0) return [];
  const ids = offered.map(({ event }) => ({
    id: storedId(event.id),
    end: isDerived(event.id) ? timeOf(event.window_end) : undefined,
  }));
  const weeks = Map.groupBy(segments, ({ week }) => week);
  return [...weeks].flatMap(([week, inWeek]) => {
    const possible = ids.filter(
      ({ end }) =>
        end === undefined || inWeek.some(({ ends }) => end >= ends.from && end <= ends.to),
    );
    if (possible.length === 0) return [];
    const text = `select ${EVENT_COLUMNS} from ${schema}.event
      where stored_on >= $1::date and stored_on < $2::date and id = any($3::text[])`;
    return [{ text, values: [week, dayOf(endOfWeek(week)), possible.map(({ id }) => id)] }];
  });
}

/** Reads stored events from the answers. A damaged one fails only the request that repeats it. */
export function storedById(
  rows: readonly DatabaseRow[],
  offered: readonly EncodedEvent[],
): StoredById {
  const found = new Map<string, UsageEvent | LedgerFailure>();
  if (rows.length === 0) return found;
  const offeredIds = new Map(offered.map(({ event }) => [storedId(event.id), event.id]));
  for (const row of rows) {
    const id = row['id'] ?? '';
    const stored = readRow(row)?.event;
    found.set(offeredIds.get(id) ?? id, stored ?? damagedEvent(Number(row['seq'])));
  }
  return found;
}

function damagedEvent(sequence: number): LedgerFailure {
  return damage('events', `event ${sequence} is damaged`).failure;
}
