import type { UsageEvent } from '../../model/event.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import type { EncodedEvent } from '../writer.ts';
import { decodeRows, type StreamView } from './decode-rows.ts';
import { EVENT_COLUMNS, idDigits, isDerived, type StoredRow, storedRowOf } from './event-rows.ts';
import { timeOf } from './instants.ts';
import { damagedEvent, type StoredById } from './plan-batch.ts';
import type { Row, Statement } from './session.ts';
import type { DaySegment } from './state.ts';

/** The statements that look up the ids of events in the days that can hold them: none for a window newer than all. */
export function lookUpStatements(
  offered: readonly EncodedEvent[],
  stream: number,
  segments: readonly DaySegment[],
): readonly Statement[] {
  const ends = new Set(offered.map(({ event }) => timeOf(event.window_end)));
  const daysOfDerived = segments.filter((segment) =>
    [...ends].some((end) => end >= segment.ends.from && end <= segment.ends.to),
  );
  const daysOfForeign = segments.filter(({ foreignIds }) => foreignIds);
  if (daysOfDerived.length + daysOfForeign.length === 0) return [];
  const derived = offered.filter(({ event }) => isDerived(event.id));
  const foreign = offered.filter(({ event }) => !isDerived(event.id));
  return [...lookUp(derived, stream, daysOfDerived), ...lookUp(foreign, stream, daysOfForeign)];
}

function lookUp(
  offered: readonly EncodedEvent[],
  stream: number,
  segments: readonly DaySegment[],
): readonly Statement[] {
  if (offered.length === 0 || segments.length === 0) return [];
  const text = `select ${EVENT_COLUMNS} from meterfeed.event
    where day = any($1::date[]) and stream = $2 and id = any($3::uuid[])`;
  const ids = offered.map(({ event }) => idDigits(event.id));
  return [{ text, values: [segments.map(({ day }) => day), stream, ids] }];
}

/** The stored events in the answers, by id. One that cannot be read concerns only those who ask for it. */
export async function storedById(
  view: StreamView,
  answers: readonly Row[],
  offered: readonly EncodedEvent[],
): Promise<StoredById> {
  const found = new Map<string, UsageEvent | LedgerFailure>();
  if (answers.length === 0) return found;
  const rows = answers.map(storedRowOf);
  try {
    for (const { event } of await decodeRows(view, rows)) found.set(event.id, event);
    return found;
  } catch (error) {
    if (!isDamage(error)) throw error;
    return eachById(view, rows, offered);
  }
}

/** A connection that ends meanwhile says nothing of what is stored. */
function isDamage(error: unknown): boolean {
  return error instanceof LedgerReadError && error.failure.cause === 'corrupt';
}

async function eachById(
  view: StreamView,
  rows: readonly StoredRow[],
  offered: readonly EncodedEvent[],
): Promise<StoredById> {
  const found = new Map<string, UsageEvent | LedgerFailure>();
  const idsByDigits = new Map(offered.map(({ event }) => [idDigits(event.id), event.id]));
  for (const row of rows) {
    const { id: digits } = row;
    const id = idsByDigits.get(digits) ?? digits;
    const [stored] = await decodeRows(view, [row]).catch((error: unknown) => {
      if (!isDamage(error)) throw error;
      return [];
    });
    found.set(id, stored?.event ?? damagedEvent(row.sequence));
  }
  return found;
}
