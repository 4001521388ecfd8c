import type { UsageEvent } from '../../model/event.ts';
import { damage } from '../failures.ts';
import type { EncodedEvent } from '../writer.ts';
import { columnsOf, type EventRow, splitEvent, type SplitEvent, storedRow } from './event-rows.ts';
import {
  insertSeries,
  numberedSeries,
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
  const draft = new SeriesDraft(place);
  const matches = events.map((event) => match(event, place.cache));
  const missing = new Set<string>();
  for (const { kind, key } of matches) {
    if (kind === 'known') continue;
    const remembered = place.cache.byKey(key);
    if (remembered === undefined) missing.add(key);
    else draft.use(remembered);
  }
  if (missing.size > 0) {
    const [found] = await session.run([selectByKey(place.stream, [...missing])]);
    for (const row of found?.rows ?? []) {
      const series = seriesOf(row);
      if (series.key !== (row['key'] ?? '').replaceAll('-', '')) {
        throw damage('series', `series ${series.number} is damaged`);
      }
      draft.use(series);
    }
  }
  const numbers: number[] = [];
  const rows = matches.map((found) => {
    if (found.kind === 'known') {
      numbers.push(draft.use(found.series).number);
      return found.row;
    }
    const series = draft.place(found.key, found.split);
    numbers.push(series.number);
    return storedRow(found.text, found.split.row, series);
  });
  return { numbers, rows, ...draft.changes() };
}

/** `known`: series and row make exactly the event's text. */
type Match =
  | {
      readonly kind: 'known';
      readonly key: string;
      readonly series: NumberedSeries;
      readonly row: EventRow;
    }
  | {
      readonly kind: 'split';
      readonly key: string;
      readonly split: SplitEvent;
      readonly text: string;
    };

/** Most events are like one of before but for their own values, which is seen without taking them apart. */
function match({ event, text }: EncodedEvent, cache: SeriesCache): Match {
  const likely = cache.likely(event);
  if (likely?.template !== undefined) {
    const row = columnsOf(event);
    if (likely.template.textOf(row) === text) {
      return { kind: 'known', key: likely.key, series: likely, row };
    }
  }
  const split = splitEvent(event);
  const key = seriesKey(split.series);
  cache.expect(event, key);
  return { kind: 'split', key, split, text };
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

  /** Notes that the day has events of a series that is stored. */
  use(series: NumberedSeries): NumberedSeries {
    const known = this.#byKey.get(series.key);
    if (known !== undefined) return known;
    const { day } = this.#place;
    if (series.lastDay < day) {
      this.#touched.push(series.number);
      return this.#change({ ...series, lastDay: day });
    }
    this.#byKey.set(series.key, series);
    return series;
  }

  /**
   * The series of the next event. Its properties become those of the series when two events in a row have them, or at
   * once where they are all texts: numbers count what is seldom the same again.
   */
  place(key: string, { series, row }: SplitEvent): NumberedSeries {
    const known = this.#byKey.get(key) ?? this.#add(key, { series, row });
    const { properties } = row.extra;
    if (properties === undefined || known.properties !== undefined) return known;
    const text = JSON.stringify(properties);
    if (known.lastProperties === text) {
      const sharing = this.#change(numberedSeries({ ...known, properties: text }, known));
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

  #add(key: string, { series, row }: SplitEvent): NumberedSeries {
    const { day, head } = this.#place;
    const number = head + this.#added.length + 1;
    const properties = textsOf(row.extra.properties);
    const shared = properties === undefined ? series : { ...series, properties };
    const added = this.#change(numberedSeries(shared, { number, key, lastDay: day }));
    this.#added.push(added);
    return added;
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
