import type { UsageEvent } from '../../model/event.ts';
import { damage } from '../failures.ts';
import type { EncodedEvent } from '../writer.ts';
import { type EventRow, splitEvent, type SplitEvent, storedRow } from './event-rows.ts';
import {
  insertSeries,
  type NumberedSeries,
  selectByKey,
  type SeriesCache,
  seriesKey,
  seriesOf,
  shareProperties,
  touchSeries,
} from './series.ts';
import type { Session, Statement } from './session.ts';

/** The events of a batch as they are stored, and what becomes of their series. */
export interface NumberedEvents {
  /** The number of each event's series. */
  readonly numbers: readonly number[];
  readonly rows: readonly EventRow[];
  /** To be run before the events are stored. */
  readonly statements: readonly Statement[];
  /** The series that changed, as they are once that is committed. */
  readonly changed: readonly NumberedSeries[];
  /** The number of the newest series. */
  readonly head: number;
}

/** Where the events are stored. */
export interface NumberingPlace {
  readonly stream: number;
  /** The day of appending, `2026-11-21`. */
  readonly day: string;
  /** The number of the newest series. */
  readonly head: number;
  readonly cache: SeriesCache;
}

/** No series keeps longer properties than this for its events. */
const MOST_SHARED_CHARACTERS = 512;

/** Gives each event its series, old or new. Asks for series that are not remembered, within the transaction. */
export async function numberSeries(
  session: Session,
  place: NumberingPlace,
  events: readonly EncodedEvent[],
): Promise<NumberedEvents> {
  const split = events.map(({ event }) => splitEvent(event));
  const keys = split.map(({ series }) => seriesKey(series));
  const draft = new SeriesDraft(place);
  const missing = [...new Set(keys)].filter((key) => !draft.knows(key));
  if (missing.length > 0) {
    const [found] = await session.run([selectByKey(place.stream, missing)]);
    for (const row of found?.rows ?? []) {
      const series = seriesOf(row);
      if (series.key !== (row['key'] ?? '').replaceAll('-', '')) {
        throw damage('series', `series ${series.number} is damaged`);
      }
      draft.found(series);
    }
  }
  const placed = split.map((event, index) => draft.place(keys[index] ?? '', event));
  return {
    numbers: placed.map(({ number }) => number),
    rows: split.map(({ row, series }, index) =>
      storedRow(events[index]?.text ?? '', row, placed[index] ?? series),
    ),
    ...draft.changes(),
  };
}

/** The series of a batch, and what the batch changes of them. */
class SeriesDraft {
  readonly #place: NumberingPlace;
  readonly #byKey = new Map<string, NumberedSeries>();
  readonly #changed = new Set<string>();
  readonly #added: NumberedSeries[] = [];
  readonly #touched: number[] = [];
  readonly #sharing: NumberedSeries[] = [];

  constructor(place: NumberingPlace) {
    this.#place = place;
  }

  /** Whether a series is remembered. */
  knows(key: string): boolean {
    return this.#place.cache.byKey(key) !== undefined;
  }

  /** A series that was not remembered and is stored. */
  found(series: NumberedSeries): void {
    this.#use(series);
  }

  /**
   * The series of the next event. Its properties become those of the series when two events in a row have them, or at
   * once where they are all texts: numbers count what is seldom the same again.
   */
  place(key: string, { series, row }: SplitEvent): NumberedSeries {
    const known = this.#byKey.get(key) ?? this.#first(key, { series, row });
    const { properties } = row.extra;
    if (properties === undefined || known.properties !== undefined) return known;
    const text = JSON.stringify(properties);
    if (known.lastProperties === text) {
      const sharing = this.#change({ ...known, properties: text });
      this.#sharing.push(sharing);
      return sharing;
    }
    if (text.length > MOST_SHARED_CHARACTERS) return known;
    return this.#change({ ...known, lastProperties: text });
  }

  changes(): Omit<NumberedEvents, 'numbers' | 'rows'> {
    const { stream, day, head } = this.#place;
    const statements = [
      ...(this.#added.length > 0 ? [insertSeries(stream, day, this.#added)] : []),
      ...(this.#touched.length > 0 ? [touchSeries(stream, day, this.#touched)] : []),
      ...(this.#sharing.length > 0 ? [shareProperties(stream, this.#sharing)] : []),
    ];
    return {
      statements,
      changed: [...this.#changed].flatMap((key) => this.#byKey.get(key) ?? []),
      head: head + this.#added.length,
    };
  }

  /** The series of the first event of it in the batch. */
  #first(key: string, { series, row }: SplitEvent): NumberedSeries {
    const { day, head, cache } = this.#place;
    const known = cache.byKey(key);
    if (known === undefined) {
      const number = head + this.#added.length + 1;
      const properties = textsOf(row.extra.properties);
      const shared = properties === undefined ? series : { ...series, properties };
      const added = this.#change({ ...shared, number, key, lastDay: day });
      this.#added.push(added);
      return added;
    }
    return this.#use(known);
  }

  /** Notes that the day has events of a series that is stored. */
  #use(known: NumberedSeries): NumberedSeries {
    const { day } = this.#place;
    if (known.lastDay >= day) {
      this.#byKey.set(known.key, known);
      return known;
    }
    this.#touched.push(known.number);
    return this.#change({ ...known, lastDay: day });
  }

  #change(series: NumberedSeries): NumberedSeries {
    this.#byKey.set(series.key, series);
    this.#changed.add(series.key);
    return series;
  }
}

/** As JSON, where they are short and all of them are texts. */
function textsOf(properties: UsageEvent['properties'] = {}): string | undefined {
  const values = Object.values(properties);
  if (values.length === 0 || values.some((value) => typeof value !== 'string')) return undefined;
  const text = JSON.stringify(properties);
  return text.length > MOST_SHARED_CHARACTERS ? undefined : text;
}
