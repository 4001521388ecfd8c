import { crc32 } from 'node:zlib';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { sequenceSeed } from '../event-chain.ts';
import { damage } from '../failures.ts';
import type { StoredEvent } from '../ledger.ts';
import { isPlain, joinEvent, type StoredRow } from './event-rows.ts';
import type { Reads } from './readers.ts';
import type { SeriesCache } from './series-cache.ts';
import type { ReadSeries } from './read-series.ts';
import { selectByNumber, seriesOf } from './series.ts';
import type { Contents } from './state.ts';

/** What reading needs to know of a stream. */
export interface StreamView extends Reads {
  readonly contents: Contents;
  readonly series: SeriesCache;
}

/** Makes events of rows while others are still on their way. */
export class EventDecoder {
  readonly #view: StreamView;
  readonly #events: StoredEvent[] = [];
  /** Those whose series are not remembered, or not as they are stored now. */
  readonly #left: StoredRow[] = [];

  constructor(view: StreamView) {
    this.#view = view;
  }

  take(row: StoredRow): void {
    const event = decodeRow(row, this.#view.series.toRead(row.series));
    if (event === undefined) this.#left.push(row);
    else this.#events.push(event);
  }

  /** All of them by their numbers, once all rows are taken. Throws a LedgerReadError at the first that is damaged. */
  async events(): Promise<readonly StoredEvent[]> {
    if (this.#left.length > 0) await this.#takeLeft();
    return this.#events.toSorted((a, b) => a.sequence - b.sequence);
  }

  async #takeLeft(): Promise<void> {
    const numbers = [...new Set(this.#left.map(({ series }) => series))];
    const series = await loadSeries(this.#view, numbers);
    for (const row of this.#left) {
      const event = decodeRow(row, series.get(row.series));
      if (event === undefined) throw damage('events', `event ${row.sequence} is damaged`);
      this.#events.push(event);
    }
  }
}

/** The events in rows, by their numbers. Throws a LedgerReadError at the first that is damaged. */
export async function decodeRows(
  view: StreamView,
  rows: readonly StoredRow[],
): Promise<readonly StoredEvent[]> {
  const decoder = new EventDecoder(view);
  for (const row of rows) decoder.take(row);
  return decoder.events();
}

/** Asks for series. Their own map, because the memory may be emptied meanwhile. */
async function loadSeries(
  { contents, series, query }: StreamView,
  numbers: readonly number[],
): Promise<ReadonlyMap<number, ReadSeries>> {
  const loaded = new Map<number, ReadSeries>();
  for (const row of await query(selectByNumber(contents.state.stream, numbers))) {
    const number = Number(row['series']);
    loaded.set(number, series.rememberRead(number, seriesOf(row)));
  }
  return loaded;
}

/** Undefined where the event and its checksum do not agree. */
function decodeRow(row: StoredRow, found: ReadSeries | undefined): StoredEvent | undefined {
  if (found === undefined) return undefined;
  const { series, template } = found;
  const { sequence, checksum } = row;
  const seed = sequenceSeed(sequence);
  try {
    const event =
      template === undefined || !isPlain(row)
        ? eventWith(checksum, seed, joinEvent(series, row))
        : template.eventWith(checksum, seed, row);
    return event && { sequence, event };
  } catch {
    return undefined;
  }
}

function eventWith(checksum: number, seed: number, event: UsageEvent): UsageEvent | undefined {
  return (crc32(encodeEvent(event), seed) | 0) === checksum ? event : undefined;
}
