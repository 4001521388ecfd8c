import type { BudgetCounts } from '../../model/budget.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { Charge, FlatCharge } from '../../model/price-book.ts';
import type { PricedUsage } from '../../model/pricing/find-price.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { Summands, UsageItem } from '../usage/usage-sums.ts';
import type { TimeRange } from '../../model/window.ts';
import { type BudgetLine, fallsOf, lineCost, NO_GROWTH, quantityAt } from './line.ts';
import { dayOf, nextDay } from './period.ts';
import { minorUnits } from './unit.ts';

/** What of usage decides to which line of an invoice it belongs. */
export type CountedUsage = PricedUsage & Pick<UsageItem, 'unit'>;

/** What is expected to be used from a moment on: as much in each window as in one that is closed. */
export interface OngoingUsage {
  readonly usage: CountedUsage;
  /** What was used in that window, nano-units, not below zero. */
  readonly nanos: bigint;
  /** The end of that window, milliseconds since the epoch. */
  readonly since: number;
  /** Its size, milliseconds, above zero. */
  readonly windowMs: number;
}

export interface AccountOptions {
  readonly tenant: string;
  readonly counts: BudgetCounts;
  /** Usage before it only fills tiers. */
  readonly period: TimeRange;
  readonly pricesOf: PricesOf;
}

/** A line with its name, by which usage finds it again ({@link monthOfLine}). */
export type NamedLine = readonly [name: string, line: Omit<BudgetLine, 'growth'>];

/** One nano-unit counts one where a budget is of a metric. */
const ONE_EACH: FlatCharge = { kind: 'flat', picos: 1n, includedNanos: 0n };

/**
 * What a tenant has used of its budget in one period, by the ledger, and what it is expected to have used at a moment.
 *
 * A price counts with what a month's cost has grown by since the period began (docs/how-to/budgets.md#what-counts), so that a
 * calendar month comes to what `GET /api/v1/costs` says before it is rounded.
 */
export class BudgetAccount implements Summands {
  readonly #options: AccountOptions;
  readonly #lines = new Map<string, BudgetLine>();
  readonly #uncounted = new Set<string>();
  #settled = 0n;
  #ongoing: readonly OngoingUsage[] = [];

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
      this.#lines.set(name, { ...line, growth: NO_GROWTH });
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

  /**
   * Replaces what is expected to go on; all usage of one metric is of one window. It counts from the beginning of the
   * period on.
   */
  setOngoing(ongoing: readonly OngoingUsage[]): void {
    for (const [name, line] of this.#lines) {
      if (line.growth.nanos > 0n) this.#lines.set(name, { ...line, growth: NO_GROWTH });
    }
    this.#ongoing = ongoing;
    const { from } = this.#options.period;
    // A balance that nothing was credited to has no period.
    if (from === Number.POSITIVE_INFINITY) return;
    for (const { usage, nanos, since, windowMs } of ongoing) {
      const begin = Math.max(since, from);
      const name = this.#lineOf(usage, begin);
      const line = name === undefined ? undefined : this.#lines.get(name);
      if (name === undefined || line === undefined) continue;
      const growth = { since: begin, windowMs, nanos: line.growth.nanos + nanos };
      this.#lines.set(name, { ...line, growth });
    }
  }

  /** What the ledger has, in the units of the budget. */
  get used(): bigint {
    let used = this.#settled;
    for (const line of this.#lines.values()) used += lineCost(line, line.used);
    return used;
  }

  /** As `BudgetStanding.usedInMinorUnits`; only where the budget is of money. */
  usedInMinorUnits(digits: number): bigint {
    let used = minorUnits(this.#settled, digits);
    for (const line of this.#lines.values()) used += minorUnits(lineCost(line, line.used), digits);
    return used;
  }

  /** What is used at a moment if everything goes on as expected; in the units of the budget. */
  usedAt(at: number): bigint {
    let used = this.#settled;
    for (const line of this.#lines.values()) used += lineCost(line, quantityAt(line, at));
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
      next.#lines.set(name, { ...line, used: quantityAt(line, midnight), growth: NO_GROWTH });
    }
    next.setOngoing(this.#ongoing.map((each) => ({ ...each, since: midnight })));
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
      this.#lines.set(name, { charge, before: 0n, used: 0n, growth: NO_GROWTH });
    }
    return name;
  }
}

/** The calendar month of UTC of a line, `2026-11`; undefined of one that all months share. */
export function monthOfLine(name: string): string | undefined {
  return /^\["(\d{4}-\d{2})"/.exec(name)?.[1];
}
