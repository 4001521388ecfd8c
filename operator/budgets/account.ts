import type { BudgetCounts } from '../model/budget.ts';
import { nanosFromDecimal } from '../model/decimal.ts';
import type { Charge, FlatCharge } from '../model/price-book.ts';
import type { PricedUsage } from '../pricing/find-price.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { Summands, TimeRange, UsageItem } from '../usage/usage-sums.ts';
import { type BudgetLine, fallsOf, lineCost, type LiveSlope, quantityAt } from './line.ts';
import { dayOf, dayStart, nextDay } from './period.ts';

/** What of usage decides to which line of an invoice it belongs. */
export type CountedUsage = PricedUsage & Pick<UsageItem, 'unit'>;

/** Usage that goes on and is not in the ledger yet. */
export interface LiveCharge {
  readonly usage: CountedUsage;
  /** The start of its window, by whose day it is priced, milliseconds since the epoch. */
  readonly windowStart: number;
  /** Nano-units × milliseconds up to `at`, below zero where closed windows had too much. */
  readonly amount: bigint;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** What each millisecond adds from then on, never below zero. */
  readonly rate: bigint;
  /** What amounts are divided by to give nano-units of the metric's quantity, above zero (`quantityOf`). */
  readonly divisor: bigint;
}

export interface AccountOptions {
  readonly tenant: string;
  readonly counts: BudgetCounts;
  /** Usage before it only fills tiers. */
  readonly period: TimeRange;
  readonly pricesOf: PricesOf;
}

/** A line with its name, by which usage finds it again ({@link monthOfLine}). */
export type NamedLine = readonly [name: string, line: Omit<BudgetLine, 'divisor' | 'live'>];

/** One nano-unit counts one where a budget is of a metric. */
const ONE_EACH: FlatCharge = { kind: 'flat', picos: 1n, includedNanos: 0n };
const STANDING: LiveSlope = { constant: 0n, slope: 0n };

/**
 * What a tenant has used of its budget in one period: what the ledger has, and what goes on now. A change of what goes
 * on costs as much as it is large, whatever else the tenant runs; so does asking, by the prices that count.
 *
 * A price counts with what a month's cost has grown by since the period began (docs/budgets.md#what-counts), so that a
 * calendar month comes to what `GET /api/v1/costs` says before it is rounded.
 */
export class BudgetAccount implements Summands {
  readonly #options: AccountOptions;
  readonly #lines = new Map<string, BudgetLine>();
  readonly #live = new Map<string, readonly LiveCharge[]>();
  /** Of what goes on the line that it was last found to belong to: it is asked for with every change, and is the same for a day. */
  readonly #lineOfLive = new WeakMap<
    CountedUsage,
    { readonly day: number; readonly name: string }
  >();
  readonly #uncounted = new Set<string>();
  #settled = 0n;

  constructor(options: AccountOptions) {
    this.#options = options;
  }

  /** Metrics of which something has no price, or one in another currency: it counts for nothing. */
  get uncounted(): readonly string[] {
    return [...this.#uncounted].toSorted();
  }

  /** What the ledger has, by line. */
  lines(): readonly NamedLine[] {
    return [...this.#lines].map(([name, { charge, before, used }]) => [
      name,
      { charge, before, used },
    ]);
  }

  /** Takes over what an account came to: `settled` in the units of the budget, and lines that it had. */
  resume(settled: bigint, lines: readonly NamedLine[]): void {
    this.#settled += settled;
    for (const [name, line] of lines) {
      this.#lines.set(name, { ...line, divisor: 1n, live: STANDING });
    }
  }

  /** Whether some usage has a price, or is of the metric that counts. Usage that is not counted is noted. */
  counts(usage: CountedUsage, windowStart: number): boolean {
    return this.#lineOf(usage, windowStart) !== undefined;
  }

  /**
   * Adds what the ledger has, from the beginning of the calendar month on in which the period begins; of sums, the
   * beginning must not lie within one. Never full.
   */
  add(item: UsageItem): true {
    const windowStart = Date.parse(item.window_start);
    const { counts, period } = this.#options;
    const isBefore = windowStart < period.from;
    // Only prices have tiers to fill.
    if (isBefore && counts.kind === 'metric') return true;
    const name = this.#lineOf(item, windowStart);
    const line = name === undefined ? undefined : this.#lines.get(name);
    if (name === undefined || line === undefined) return true;
    const nanos = nanosFromDecimal(item.quantity);
    this.#lines.set(
      name,
      isBefore ? { ...line, before: line.before + nanos } : { ...line, used: line.used + nanos },
    );
    return true;
  }

  /** Says what goes on at one place, such as of one charge, instead of what was said before. */
  setLive(place: string, charges: readonly LiveCharge[]): void {
    for (const charge of this.#live.get(place) ?? []) this.#slope(charge, -1n);
    for (const charge of charges) this.#slope(charge, 1n);
    if (charges.length === 0) this.#live.delete(place);
    else this.#live.set(place, charges);
  }

  /** What is used at a moment if everything goes on as now; in the units of the budget. */
  usedAt(at: number): bigint {
    let used = this.#settled;
    for (const line of this.#lines.values()) used += lineCost(line, at);
    return used;
  }

  /**
   * The first millisecond from `from` on, and before `until`, at which so much is used; undefined where it is not by
   * then. Prices are those of now: ask no further than the next UTC day, or {@link forecast}.
   */
  reaches(level: bigint, from: number, until: number): number | undefined {
    const falls = [...this.#lines.values()].flatMap((line) => fallsOf(line, from, until));
    let first = from;
    for (const end of [...falls.toSorted((a, b) => a - b), until]) {
      if (end <= first) continue;
      if (this.usedAt(end - 1) >= level) return this.#firstReached(level, first, end - 1);
      first = end;
    }
    return undefined;
  }

  /** As {@link reaches}, across days of which each has its own prices, up to the end of the period. Costs more with every day. */
  forecast(level: bigint, from: number, until: number): number | undefined {
    const end = Math.min(until, this.#options.period.to);
    const midnight = Math.min(nextDay(from), end);
    const reached = this.reaches(level, from, midnight);
    if (reached !== undefined || midnight >= end) return reached;
    return this.#onDay(midnight).forecast(level, midnight, until);
  }

  /** The account as it will be at the beginning of a day if everything goes on, with the prices of that day. */
  #onDay(midnight: number): BudgetAccount {
    const next = new BudgetAccount(this.#options);
    next.#settled = this.#settled;
    for (const [name, line] of this.#lines) {
      next.#lines.set(name, { ...line, used: quantityAt(line, midnight), live: STANDING });
    }
    for (const [place, charges] of this.#live) {
      const begun = { windowStart: midnight, at: midnight, amount: 0n };
      next.setLive(
        place,
        charges.map((charge) => ({ ...charge, ...begun })),
      );
    }
    return next;
  }

  /** Of a stretch in which nothing falls, and at whose end so much is used. */
  #firstReached(level: bigint, from: number, to: number): number {
    let [low, high] = [from, to];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.usedAt(middle) >= level) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #slope(charge: LiveCharge, sign: 1n | -1n): void {
    const { usage, windowStart, amount, at, rate, divisor } = charge;
    // What began before the period is in the ledger soon, and counts for nothing but tiers.
    if (windowStart < this.#options.period.from) return;
    const name = this.#liveLineOf(usage, windowStart);
    const line = name === undefined ? undefined : this.#lines.get(name);
    if (name === undefined || line === undefined) return;
    const { constant, slope } = line.live;
    const live = {
      constant: constant + sign * (amount - rate * BigInt(at)),
      slope: slope + sign * rate,
    };
    this.#lines.set(name, { ...line, divisor, live });
  }

  #liveLineOf(usage: CountedUsage, windowStart: number): string | undefined {
    const day = dayStart(windowStart);
    const known = this.#lineOfLive.get(usage);
    if (known?.day === day) return known.name;
    const name = this.#lineOf(usage, windowStart);
    if (name !== undefined) this.#lineOfLive.set(usage, { day, name });
    return name;
  }

  /** The name of the line that some usage belongs to, which is there then; undefined where it does not count. */
  #lineOf(usage: CountedUsage, windowStart: number): string | undefined {
    const { tenant, counts, pricesOf } = this.#options;
    const day = dayOf(windowStart);
    if (counts.kind === 'metric') {
      return usage.metric === counts.metric ? this.#open(usage.metric, ONE_EACH) : undefined;
    }
    const prices = pricesOf(tenant, day);
    const price = prices?.currency === counts.currency ? prices.finder.find(usage, day) : undefined;
    if (prices === undefined || price === undefined) {
      this.#uncounted.add(usage.metric);
      return undefined;
    }
    const month = day.slice(0, 7);
    const line = [month, prices.plan, price.name, price.from, usage.unit];
    return this.#open(JSON.stringify(line), price.charge);
  }

  #open(name: string, charge: Charge): string {
    if (!this.#lines.has(name)) {
      this.#lines.set(name, { charge, divisor: 1n, before: 0n, used: 0n, live: STANDING });
    }
    return name;
  }
}

/** The calendar month of UTC of a line, `2026-11`; undefined of one that all months share. */
export function monthOfLine(name: string): string | undefined {
  return /^\["(\d{4}-\d{2})"/.exec(name)?.[1];
}
