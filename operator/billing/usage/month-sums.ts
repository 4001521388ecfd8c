import { signedFromNanos, divideHalfUp, nanosFromDecimal } from '../../model/decimal.ts';
import { createKeyReaders, type UsageItem } from './usage-sums.ts';

const DAY_MS = 86_400_000;
/** How much of the past a forecast goes by, whole days. */
const FORECAST_DAYS = 7;

/** A calendar month of UTC as it stands at a moment. All milliseconds since the epoch. */
export interface MonthSpan {
  readonly from: number;
  /** Its end, exclusive. */
  readonly to: number;
  /** The first instant of the month before. */
  readonly before: number;
  /** Up to where it can have been measured: its end, or now. */
  readonly until: number;
  /** The whole days of it that are over, compared with as many of the month before, unless it is over. */
  readonly completeDays: number;
  /** When measuring began; undefined where that is not known. */
  readonly since?: number;
  /** What is to be read of the ledger. */
  readonly range: { readonly from: number; readonly to: number };
  /** The whole days that a forecast goes by; absent where there is none to make. */
  readonly recent?: { readonly from: number; readonly to: number };
}

/**
 * The span of a month that has begun, `month` counted from 0 as Date.UTC does. `since` is when
 * measuring began: a forecast goes by whole days that were measured, the last seven at most.
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

/** One row of a month. Quantities are plain decimal text, below zero where corrections outweigh usage. */
export interface MonthRow {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  readonly quantity: string;
  readonly events: number;
  /** All of the month before, as far as it was measured; absent where nothing of it was. */
  readonly before?: string;
  /**
   * What the month has more than the month before; of a month that is under way, what its whole days
   * have more than as many days of the month before. Absent on its first day, and where measuring began after
   * the first day of the month before: what is not known is not less.
   */
  readonly change?: string;
  /** What of the month before that is compared with; absent with the change. */
  readonly comparedWith?: string;
  /** What it comes to at its end, if the rest goes on as the last days; absent when it is over or too new. */
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

/** Exact sums of a month and of the one before, in one pass over the sums of both. */
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

  /** False when the item would open one row too many; nothing is added then. */
  add(item: UsageItem, events = 1): boolean {
    const sum = this.#sumOf(item);
    if (sum === undefined) return false;
    const { from, to, before, until, completeDays: wholeDays, recent } = this.#span;
    const at = Date.parse(item.window_start);
    const nanos = nanosFromDecimal(item.quantity);
    const complete = until === to ? to - from : wholeDays * DAY_MS;
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
    const { until, to, before, completeDays: wholeDays, since = 0 } = this.#span;
    if ((until < to && wholeDays === 0) || since >= before + DAY_MS) return {};
    const more = compared - comparedWith;
    const change = signedFromNanos(more);
    return { change, comparedWith: signedFromNanos(comparedWith) };
  }

  /** So far, and the rest at the rate of the recent days. */
  #forecast({ quantity, recent }: Sum): string | undefined {
    const { until, to, recent: days } = this.#span;
    if (days === undefined) return undefined;
    const rest = divideHalfUp(recent * BigInt(to - until), BigInt(days.to - days.from));
    return signedFromNanos(quantity + rest);
  }
}
