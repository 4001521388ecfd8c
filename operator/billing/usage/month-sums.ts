import { signedFromNanos, divideHalfUp, nanosFromDecimal } from '../../model/decimal.ts';
import { createKeyReaders, type UsageItem } from './usage-sums.ts';

const DAY_MS = 86_400_000;
/** Most full days that a forecast is based on. */
const FORECAST_DAYS = 7;

/** A UTC calendar month at a moment. All times are milliseconds since the epoch. */
export interface MonthSpan {
  readonly from: number;
  /** Its end, exclusive. */
  readonly to: number;
  /** The first instant of the previous month. */
  readonly before: number;
  /** The end of the measurable part: the end of the month, or now. */
  readonly until: number;
  /**
   * Its full days so far. They are compared with as many days of the previous month until the month
   * is over.
   */
  readonly completeDays: number;
  /** When measuring began; undefined while unknown. */
  readonly since?: number;
  /** The range to read from the ledger. */
  readonly range: { readonly from: number; readonly to: number };
  /** The full days that a forecast is based on; absent if there is no forecast. */
  readonly recent?: { readonly from: number; readonly to: number };
}

/**
 * The span of a month that has begun; `month` counts from 0, as for Date.UTC. `since` is when
 * measuring began. A forecast is based on the last full measured days, at most seven.
 */
export function monthSpan(
  year: number,
  month: number,
  now: number,
  since: number | undefined,
): MonthSpan {
  const [from, to] = [Date.UTC(year, month), Date.UTC(year, month + 1)];
  const before = Date.UTC(year, month - 1);
  const until = Math.min(now, to);
  const today = Math.floor(until / DAY_MS) * DAY_MS;
  const firstDay = Math.ceil((since ?? until) / DAY_MS) * DAY_MS;
  const recent = { from: Math.max(today - FORECAST_DAYS * DAY_MS, firstDay), to: today };
  const forecasts = until < to && recent.from < recent.to;
  return {
    from,
    to,
    before,
    until,
    completeDays: (today - from) / DAY_MS,
    range: { from: Math.min(before, recent.from), to },
    since,
    ...(forecasts && { recent }),
  };
}

/**
 * One row of a month. Quantities are plain decimal text, below zero when corrections exceed usage.
 */
export interface MonthRow {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  readonly quantity: string;
  readonly events: number;
  /** The measured quantity of the previous month; absent if nothing was measured. */
  readonly before?: string;
  /**
   * The quantity minus {@link comparedWith}. While the month runs, only its full days count,
   * against as many days of the previous month. Absent on the first day, and when measuring began
   * after the first day of the previous month: unknown is not zero.
   */
  readonly change?: string;
  /** The part of the previous month used for the comparison; absent with the change. */
  readonly comparedWith?: string;
  /**
   * The expected quantity at the end of the month, if usage goes on as on the last days. Absent
   * when the month is over or too new.
   */
  readonly forecast?: string;
}

interface Sum {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  events: number;
  quantity: bigint;
  before: bigint;
  compared: bigint;
  comparedWith: bigint;
  recent: bigint;
}

/** Exact sums of a month and of the previous one, in one pass. */
export class MonthSums {
  readonly #span: MonthSpan;
  readonly #maxRows: number;
  readonly #readers: ReturnType<typeof createKeyReaders>;
  readonly #sums = new Map<string, Sum>();

  constructor(span: MonthSpan, groupBy: readonly string[], maxRows: number) {
    this.#span = span;
    this.#maxRows = maxRows;
    this.#readers = createKeyReaders(groupBy);
  }

  /** Returns false when the item needs one row too many; then nothing is added. */
  add(item: UsageItem, events = 1): boolean {
    const sum = this.#sumOf(item);
    if (sum === undefined) return false;
    const { from, to, before, until, completeDays, recent } = this.#span;
    const at = Date.parse(item.window_start);
    const nanos = nanosFromDecimal(item.quantity);
    const complete = until === to ? to - from : completeDays * DAY_MS;
    const completeBefore = until === to ? from - before : Math.min(complete, from - before);
    if (at >= from && at < to) {
      sum.quantity += nanos;
      sum.events += events;
      if (at < from + complete) sum.compared += nanos;
    } else if (at >= before && at < from) {
      sum.before += nanos;
      if (at < before + completeBefore) sum.comparedWith += nanos;
    }
    if (recent !== undefined && at >= recent.from && at < recent.to) sum.recent += nanos;
    return true;
  }

  /** Sorted by keys, then metric and unit. */
  rows(): readonly MonthRow[] {
    const { from, since = 0 } = this.#span;
    return [...this.#sums]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, sum]) => ({
        keys: sum.keys,
        metric: sum.metric,
        unit: sum.unit,
        events: sum.events,
        quantity: signedFromNanos(sum.quantity),
        ...(since < from && { before: signedFromNanos(sum.before) }),
        ...this.#change(sum),
        forecast: this.#forecast(sum),
      }));
  }

  #sumOf(item: UsageItem): Sum | undefined {
    const { metric, unit } = item;
    const keys = this.#readers.map((read) => read(item) ?? '');
    const name = [...keys, metric, unit].join('\0');
    const known = this.#sums.get(name);
    if (known !== undefined) return known;
    if (this.#sums.size >= this.#maxRows) return undefined;
    const nothing = {
      events: 0,
      quantity: 0n,
      before: 0n,
      compared: 0n,
      comparedWith: 0n,
      recent: 0n,
    };
    const sum = { keys, metric, unit, ...nothing };
    this.#sums.set(name, sum);
    return sum;
  }

  #change({ compared, comparedWith }: Sum): Pick<MonthRow, 'change' | 'comparedWith'> {
    const { until, to, before, completeDays, since = 0 } = this.#span;
    if ((until < to && completeDays === 0) || since >= before + DAY_MS) return {};
    const more = compared - comparedWith;
    const change = signedFromNanos(more);
    return { change, comparedWith: signedFromNanos(comparedWith) };
  }

  /** Usage so far, plus the rate of the recent days for the remainder. */
  #forecast({ quantity, recent }: Sum): string | undefined {
    const { until, to, recent: days } = this.#span;
    if (days === undefined) return undefined;
    const remainder = divideHalfUp(recent * BigInt(to - until), BigInt(days.to - days.from));
    return signedFromNanos(quantity + remainder);
  }
}
