import type { BudgetCounts } from '../../model/budget.ts';
import { nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import type { TimeRange } from '../../model/window.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { UsageItem } from '../usage/usage-sums.ts';
import {
  BudgetAccount,
  type CountedUsage,
  monthOfLine,
  type NamedLine,
  windowOf,
} from './account.ts';
import { lineCost } from './line.ts';
import { countedAt, dayOf, dayStart } from './period.ts';

const DAY_MS = 86_400_000;
/** A day has the prices of the plan at its end, and the ledger has a change of plan soon after. */
const OPEN_DAYS = 2;
/** Usage without a price after this time never counts. */
const UNPRICED_MS = 35 * DAY_MS;

/** The usage of one day with equal pricing fields, nano-units. */
export interface BookRow {
  readonly usage: CountedUsage;
  /** The beginning of the day, or of the book if that is later; milliseconds since the epoch. */
  readonly start: number;
  readonly nanos: bigint;
}

/** The stored fields of a book. */
export interface BookContent {
  /** Earlier usage only fills tiers; milliseconds since the epoch. */
  readonly since: number;
  /** The cost of months that are complete, in the units of a budget. */
  readonly settled: bigint;
  readonly lines: readonly NamedLine[];
  readonly rows: readonly BookRow[];
}

/**
 * The usage of a tenant's prepaid balance. A book lasts as long as the balance, so longer than the
 * ledger and its sums.
 * 1. The last days are stored as usage, so that the final plan of each day prices them.
 * 2. Earlier days are stored by price, as on an invoice (docs/how-to/budgets.md#prepaid).
 */
export class PrepaidBook {
  readonly tenant: string;
  readonly counts: BudgetCounts;
  readonly since: number;
  readonly #period: TimeRange;
  #settled: bigint;
  #lines: readonly NamedLine[];
  readonly #rows: Map<string, BookRow>;

  constructor(tenant: string, counts: BudgetCounts, content: BookContent) {
    this.tenant = tenant;
    this.counts = counts;
    this.since = content.since;
    this.#period = { from: content.since, to: Number.POSITIVE_INFINITY };
    this.#settled = content.settled;
    this.#lines = content.lines;
    this.#rows = new Map(content.rows.map((row) => [nameOf(row), row]));
  }

  get content(): BookContent {
    const { since } = this;
    return { since, settled: this.#settled, lines: this.#lines, rows: [...this.#rows.values()] };
  }

  /**
   * Adds an event of the ledger, or a sum of events from before the book began. Returns false for
   * usage that does not count.
   */
  add(item: UsageItem): boolean {
    const { counts, since } = this;
    if (counts.kind === 'metric' && item.metric !== counts.metric) return false;
    const at = countedAt(windowOf(item), this.#period);
    const isBefore = at < since;
    // Only prices have tiers to fill, and only the month in which the book begins counts.
    const fills = counts.kind === 'money' && dayOf(at).slice(0, 7) === dayOf(since).slice(0, 7);
    if (isBefore && !fills) return false;
    const { metric, unit, sku, region, dimensions } = item;
    const usage = {
      metric,
      unit,
      sku,
      region,
      dimensions,
    };
    const start = isBefore ? dayStart(at) : Math.max(dayStart(at), since);
    const added = { usage, start, nanos: nanosFromDecimal(item.quantity) };
    const name = nameOf(added);
    const { nanos = 0n } = this.#rows.get(name) ?? {};
    this.#rows.set(name, { ...added, nanos: nanos + added.nanos });
    return true;
  }

  /** The account of the balance, without usage that goes on. */
  account(pricesOf: PricesOf): BudgetAccount {
    const account = this.#empty(pricesOf);
    account.resume(this.#settled, this.#lines);
    for (const row of this.#rows.values()) account.add(this.#itemOf(row));
    return account;
  }

  /**
   * Makes the book smaller. Adds up by price the days that are long over. Adds up to one sum the
   * months that end by `closedUntil`. No usage of those months can follow.
   */
  fold(now: number, closedUntil: number, pricesOf: PricesOf): void {
    const account = this.#empty(pricesOf);
    account.resume(0n, this.#lines);
    for (const [name, row] of this.#rows) {
      if (row.start >= dayStart(now) - OPEN_DAYS * DAY_MS) continue;
      const isPriced = account.counts(row.usage, row.start);
      if (isPriced) account.add(this.#itemOf(row));
      if (isPriced || row.start < now - UNPRICED_MS) this.#rows.delete(name);
    }
    const remaining: NamedLine[] = [];
    for (const [name, line] of account.lines()) {
      if (endOf(name) > closedUntil || this.#isOpen(name)) remaining.push([name, line]);
      else this.#settled += lineCost(line, line.used);
    }
    this.#lines = remaining;
  }

  /** Returns true while days of the line's month are stored as usage. */
  #isOpen(name: string): boolean {
    const month = monthOfLine(name);
    return [...this.#rows.values()].some(({ start }) => dayOf(start).slice(0, 7) === month);
  }

  #empty(pricesOf: PricesOf): BudgetAccount {
    const { tenant, counts } = this;
    return new BudgetAccount({ tenant, counts, period: this.#period, pricesOf });
  }

  #itemOf({ usage, start, nanos }: BookRow): UsageItem {
    const [tenant, quantity] = [this.tenant, signedFromNanos(nanos)];
    return { ...usage, tenant, quantity, window_start: new Date(start).toISOString() };
  }
}

function nameOf({ usage, start }: Pick<BookRow, 'usage' | 'start'>): string {
  const { metric, unit, sku, region, dimensions } = usage;
  return JSON.stringify([start, metric, unit, sku, region, dimensions]);
}

/** The end of a line's month; `Infinity` for a line without a month. */
function endOf(name: string): number {
  const month = monthOfLine(name);
  if (month === undefined) return Number.POSITIVE_INFINITY;
  const first = new Date(`${month}-01T00:00:00Z`);
  return Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1);
}
