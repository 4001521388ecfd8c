import type { UsageEvent } from '../../model/event.ts';
import type { Series } from './event-rows.ts';
import { type ReadSeries, ReadSeriesMaker } from './read-series.ts';
import type { NumberedSeries } from './series.ts';

/** Some 100 MB where they are written, 30 where they are only read. */
const MOST_REMEMBERED = 50_000;

/** The series that were used lately: for writing by key and by number, for reading by number. */
export class SeriesCache {
  readonly #byKey = new Map<string, NumberedSeries>();
  readonly #byNumber = new Map<number, NumberedSeries>();
  readonly #read = new Map<number, ReadSeries>();
  readonly #maker = new ReadSeriesMaker();
  readonly #keyByHint = new Map<string, string>();
  /** The numbers of those that came behind others, by the numbers of these. */
  readonly #following = new Map<number, number>();
  #last: number | undefined;

  /** The series that came behind the last one before: most windows have the same in the same order. */
  following(): NumberedSeries | undefined {
    const number = this.#last === undefined ? undefined : this.#following.get(this.#last);
    return number === undefined ? undefined : this.#byNumber.get(number);
  }

  /** Notes which series the last event belongs to. */
  follow({ number }: NumberedSeries): void {
    if (this.#last !== undefined && this.#following.get(this.#last) !== number) {
      this.#following.set(this.#last, number);
    }
    this.#last = number;
  }

  /** The series that an event most likely belongs to, whatever came before it. */
  likely(event: UsageEvent): NumberedSeries | undefined {
    const key = this.#keyByHint.get(hintOf(event));
    return key === undefined ? undefined : this.#byKey.get(key);
  }

  /** Notes to which series an event belongs. */
  expect(event: UsageEvent, key: string): void {
    if (this.#keyByHint.size >= MOST_REMEMBERED) this.#keyByHint.clear();
    this.#keyByHint.set(hintOf(event), key);
  }

  byKey(key: string): NumberedSeries | undefined {
    return this.#byKey.get(key);
  }

  /** To read events with. */
  toRead(number: number): ReadSeries | undefined {
    const written = this.#read.has(number) ? undefined : this.#byNumber.get(number);
    return written === undefined ? this.#read.get(number) : this.rememberRead(number, written);
  }

  /** Notes a series as it is stored now, to read events with. */
  rememberRead(number: number, series: Series): ReadSeries {
    if (this.#read.size >= MOST_REMEMBERED) this.#read.clear();
    const read = this.#maker.make(series);
    this.#read.set(number, read);
    return read;
  }

  /** Notes a series as it is stored now, to write events with. */
  remember(series: NumberedSeries): void {
    if (this.#byKey.size >= MOST_REMEMBERED) this.clear();
    this.#byKey.set(series.key, series);
    this.#byNumber.set(series.number, series);
    this.#read.delete(series.number);
  }

  clear(): void {
    this.#byKey.clear();
    this.#byNumber.clear();
    this.#read.clear();
    this.#keyByHint.clear();
    this.#following.clear();
    this.#last = undefined;
  }
}

/** Cheaper than the key, and the same for most events of a series. */
function hintOf(event: UsageEvent): string {
  const { tenant, metric, region, project, sku, resource_id: resource, source, dimensions } = event;
  let hint = `${tenant} ${metric} ${region} ${project} ${sku} ${resource} ${source}`;
  for (const name in dimensions) hint += ` ${dimensions[name]}`;
  return hint;
}
