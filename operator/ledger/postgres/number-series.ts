import type { UsageEvent } from '../../model/event.ts';
import { damage } from '../failures.ts';
import type { EncodedEvent } from '../writer.ts';
import { type EventRow, type SplitEvent, storedRow } from './event-rows.ts';
import { type Match, type Matches, matchSeries } from './match-series.ts';
import type { SeriesCache } from './series-cache.ts';
import {
  insertSeries,
  numberedSeries,
  type NumberedSeries,
  numberedSeriesOf,
  selectByKey,
  shareProperties,
  touchSeries,
} from './series.ts';
import type { Session, Statement } from './session.ts';

/** Events as they are stored. */
export interface NumberedEvents {
  /** The number of each event's series. */
  readonly numbers: readonly number[];
  readonly rows: readonly EventRow[];
}

/** What a batch changes of the series. */
export interface SeriesChanges {
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
  /** Those of the first events, which were made before. */
  readonly matches: Matches;
}

/** No series keeps longer properties than this for its events. */
const MOST_SHARED_CHARACTERS = 512;

/** Gives the events of a batch their series, old or new, a few events after the other. */
export class SeriesNumbering {
  readonly #place: NumberingPlace;
  readonly #byKey = new Map<string, NumberedSeries>();
  /** What was asked for: undefined where there is no such series yet. */
  readonly #asked = new Map<string, NumberedSeries | undefined>();
  readonly #changed = new Set<string>();
  readonly #added: NumberedSeries[] = [];
  readonly #touched: number[] = [];
  readonly #sharing: NumberedSeries[] = [];

  constructor(place: NumberingPlace) {
    this.#place = place;
  }

  /** The events that come next; undefined where a series has to be {@link ask}ed for before. */
  number(events: readonly EncodedEvent[]): NumberedEvents | undefined {
    const matches = events.map((event) => this.#match(event));
    if (matches.some((found) => found.kind === 'split' && !this.#isKnown(found.key))) {
      return undefined;
    }
    const numbers: number[] = [];
    const rows = matches.map((found) => {
      if (found.kind === 'known') {
        numbers.push(found.series.number);
        if (found.series.lastDay < this.#place.day) this.#use(found.series);
        return found.row;
      }
      const series = this.#seriesFor(found.key, found.split);
      numbers.push(series.number);
      return storedRow(found.text, found.split.row, series);
    });
    return { numbers, rows };
  }

  /** Asks for the series of events that are not remembered, within the transaction. */
  async ask(session: Session, events: readonly EncodedEvent[]): Promise<void> {
    const keys = events.flatMap((event) => {
      const found = this.#match(event);
      return found.kind === 'known' || this.#isKnown(found.key) ? [] : [found.key];
    });
    for (const key of keys) this.#asked.set(key, undefined);
    const [found] = await session.run([selectByKey(this.#place.stream, [...new Set(keys)])]);
    for (const row of found?.rows ?? []) {
      const series = numberedSeriesOf(row);
      if (series.key !== (row['key'] ?? '').replaceAll('-', '')) {
        throw damage('series', `series ${series.number} is damaged`);
      }
      this.#asked.set(series.key, series);
    }
  }

  changes(): SeriesChanges {
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

  #match(event: EncodedEvent): Match {
    return this.#place.matches.get(event) ?? matchSeries(event, this.#place.cache);
  }

  #isKnown(key: string): boolean {
    return (
      this.#byKey.has(key) || this.#asked.has(key) || this.#place.cache.byKey(key) !== undefined
    );
  }

  /** Notes that the day has events of a series that is stored. */
  #use(series: NumberedSeries): NumberedSeries {
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
  #seriesFor(key: string, { series, row }: SplitEvent): NumberedSeries {
    const stored = this.#asked.get(key) ?? this.#place.cache.byKey(key);
    const known =
      this.#byKey.get(key) ??
      (stored === undefined ? this.#add(key, { series, row }) : this.#use(stored));
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
