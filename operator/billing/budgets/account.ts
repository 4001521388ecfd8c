import type { BudgetCounts } from '../../model/budget.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { PriceCharge, FlatCharge } from '../../model/price-book.ts';
import type { PricedUsage } from '../../model/pricing/find-price.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { Summands, UsageItem } from '../usage/usage-sums.ts';
import type { TimeRange, Window } from '../../model/window.ts';
import { type BudgetLine, fallsOf, type Growth, lineCost, NO_GROWTH, quantityAt } from './line.ts';
import { countedAt, dayOf, nextDay } from './period.ts';
import { minorUnits } from './unit.ts';

/** The fields of usage that decide which invoice line it belongs to. */
export type CountedUsage = PricedUsage & Pick<UsageItem, 'unit'>;

/** Usage that is expected to go on: every later window uses as much as the closed one did. */
export interface OngoingUsage extends Growth {
  readonly usage: CountedUsage;
}

/**
 * Usage that the ledger does not have yet: a sum of one series in one open window. The same object
 * for as long as only `nanos` changes.
 */
export interface UnclosedUsage extends CountedUsage {
  /** Not below zero. */
  readonly nanos: bigint;
  readonly window: Window;
}

/** A line with its name. {@link monthOfLine} reads the month from the name. */
export type NamedLine = readonly [name: string, line: Omit<BudgetLine, 'growth'>];

/** The charge of a budget that counts a metric: one nano-unit counts one. */
const ONE_EACH: FlatCharge = { kind: 'flat', picos: 1n, includedNanos: 0n };

/**
 * What one tenant has used of its budget in one period, and what it is expected to have used at a
 * given moment. The used amount comes from the ledger.
 *
 * A price counts with the growth of the month's cost since the period began
 * (docs/how-to/budgets.md#what-counts). So a calendar month adds up to the unrounded cost of `GET
 * /api/v1/costs`.
 */
export class BudgetAccount implements Summands {
  readonly #options;
  readonly #lines = new Map<string, BudgetLine>();
  readonly #uncounted = new Set<string>();
  readonly #openLines = new WeakMap<UnclosedUsage, string | undefined>();
  #settled = 0n;
  #ongoing: readonly OngoingUsage[] = [];

  constructor(options: {
    readonly tenant: string;
    readonly counts: BudgetCounts;
    /** Usage before the period costs nothing but fills the tiers of prices. */
    readonly period: TimeRange;
    readonly pricesOf: PricesOf;
  }) {
    this.#options = options;
  }

  /** Metrics with usage that counts for nothing: without a price, or in another currency. */
  get uncounted(): readonly string[] {
    return [...this.#uncounted].toSorted();
  }

  /** The usage of the ledger by line. */
  lines(): readonly NamedLine[] {
    return [...this.#lines].map(([name, { charge, before, used }]) => [
      name,
      { charge, before, used },
    ]);
  }

  /** Restores a stored account: `settled` in the units of the budget, and its lines. */
  resume(settled: bigint, lines: readonly NamedLine[]): void {
    this.#settled += settled;
    for (const [name, line] of lines) {
      this.#lines.set(name, { ...line, growth: NO_GROWTH });
    }
  }

  /**
   * Returns true when the usage has a price, or is of the metric that counts. Otherwise adds its
   * metric to `uncounted`.
   */
  counts(usage: CountedUsage, windowStart: number): boolean {
    return this.#lineOf(usage, windowStart) !== undefined;
  }

  /**
   * Adds usage of the ledger. Give all of it from the first instant of the calendar month in which
   * the period begins. No sum may span the beginning of the period. Always returns true: the
   * account is never full.
   */
  add(item: UsageItem): true {
    const { counts, period } = this.#options;
    const at = countedAt(windowOf(item), period);
    const isBefore = at < period.from;
    // Only prices have tiers to fill.
    if (isBefore && counts.kind === 'metric') return true;
    const name = this.#lineOf(item, at);
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
   * Replaces the usage that is expected to go on. All usage of one metric belongs to one window. It
   * counts from the beginning of the period.
   */
  setOngoing(ongoing: readonly OngoingUsage[]): void {
    for (const [name, line] of this.#lines) {
      if (line.growth.nanos > 0n) this.#lines.set(name, { ...line, growth: NO_GROWTH });
    }
    this.#ongoing = ongoing;
    const { from } = this.#options.period;
    // A balance without credits has no period.
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

  /** The usage of the ledger, in the units of the budget. */
  get used(): bigint {
    let used = this.#settled;
    for (const line of this.#lines.values()) used += lineCost(line, line.used);
    return used;
  }

  /**
   * As {@link used}, in the smallest units of a currency with this many digits. Only for budgets of
   * money. Rounds each line, as `BudgetState.usedInMinorUnits` does.
   */
  usedInMinorUnits(digits: number): bigint {
    let used = minorUnits(this.#settled, digits);
    for (const line of this.#lines.values()) used += minorUnits(lineCost(line, line.used), digits);
    return used;
  }

  /**
   * The amount used at a moment if everything goes on as expected, in the units of the budget. With
   * `open` it includes usage that the ledger does not have yet.
   */
  usedAt(at: number, open: readonly UnclosedUsage[] = []): bigint {
    const more = new Map<string, bigint>();
    for (const sum of open) {
      const name = this.#lineOfOpen(sum);
      if (name !== undefined) more.set(name, (more.get(name) ?? 0n) + sum.nanos);
    }
    let used = this.#settled;
    for (const [name, line] of this.#lines) {
      used += lineCost(line, quantityAt(line, at) + (more.get(name) ?? 0n));
    }
    return used;
  }

  /**
   * The first millisecond in `[from, until)` at which the used amount reaches `level`; undefined if
   * there is none. Applies the prices of now, so `until` must not be after the next UTC day. Use
   * {@link forecast} beyond that.
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

  /**
   * As {@link reaches}, up to the end of the period, with the prices of each day. The time it takes
   * grows with each day.
   */
  forecast(level: bigint, from: number, until: number): number | undefined {
    const end = Math.min(until, this.#options.period.to);
    const midnight = Math.min(nextDay(from), end);
    const reached = this.reaches(level, from, midnight);
    if (reached !== undefined || midnight >= end) return reached;
    return this.#onDay(midnight).forecast(level, midnight, until);
  }

  /** The account at the beginning of a later day if everything goes on, with that day's prices. */
  #onDay(midnight: number): BudgetAccount {
    const next = new BudgetAccount(this.#options);
    next.#settled = this.#settled;
    for (const [name, line] of this.#lines) {
      next.#lines.set(name, { ...line, used: quantityAt(line, midnight), growth: NO_GROWTH });
    }
    next.setOngoing(this.#ongoing.map((each) => ({ ...each, since: midnight })));
    return next;
  }

  /** Bisects `[from, to]`, in which the cost never falls and whose end reaches `level`. */
  #firstReached(level: bigint, from: number, to: number): number {
    let [low, high] = [from, to];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.usedAt(middle) >= level) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** As {@link #lineOf}, once for each sum: access checks are many. */
  #lineOfOpen(sum: UnclosedUsage): string | undefined {
    if (this.#openLines.has(sum)) return this.#openLines.get(sum);
    const { period } = this.#options;
    const at = countedAt(sum.window, period);
    const name = at < period.from ? undefined : this.#lineOf(sum, at);
    this.#openLines.set(sum, name);
    return name;
  }

  /**
   * The name of the line that the usage belongs to; opens the line if needed. Undefined when the
   * usage does not count.
   */
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

  #open(name: string, charge: PriceCharge): string {
    if (!this.#lines.has(name)) {
      this.#lines.set(name, { charge, before: 0n, used: 0n, growth: NO_GROWTH });
    }
    return name;
  }
}

/** The window of an event. A sum has its start only. */
export function windowOf({ window_start: start, window_end: end = start }: UsageItem): Window {
  return { start: Date.parse(start), end: Date.parse(end) };
}

/**
 * The UTC calendar month of a line, `2026-11`. Undefined for a line without a month, which budgets
 * of a metric have.
 */
export function monthOfLine(name: string): string | undefined {
  return /^\["(\d{4}-\d{2})"/.exec(name)?.[1];
}
