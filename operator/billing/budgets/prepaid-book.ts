import type { BudgetCounts } from '../../model/budget.ts';
import { nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { UsageItem } from '../usage/usage-sums.ts';
import { BudgetAccount, type CountedUsage, monthOfLine, type NamedLine } from './account.ts';
import { lineCost } from './line.ts';
import { dayOf, dayStart } from './period.ts';

const DAY_MS = 86_400_000;
/** A day's prices are its plan's at its end, and a change of plan is on record soon after. */
const OPEN_DAYS = 2;
/** Usage that nothing prices by then counts for nothing for good. */
const UNPRICED_MS = 35 * DAY_MS;

/** Usage of one day that nothing tells apart, nano-units. */
export interface BookRow {
  readonly usage: CountedUsage;
  /** The beginning of the day, or that of the book where it lies in the day; milliseconds since the epoch. */
  readonly start: number;
  readonly nanos: bigint;
}

/** Everything of a book that is stored. */
export interface BookContent {
  /** Usage of windows that begin earlier only fills tiers, milliseconds since the epoch. */
  readonly since: number;
  /** What months came to that nothing is added to any more, in the units of a budget. */
  readonly settled: bigint;
  readonly lines: readonly NamedLine[];
  readonly rows: readonly BookRow[];
}

/**
 * What a tenant has used of a prepaid balance, by the ledger, for as long as the balance lasts: longer than the ledger and
 * its sums are kept. The last days are kept as they were used, so that they cost what their plan says in the end;
 * what was before is kept by price, as on an invoice (docs/how-to/budgets.md#prepaid).
 */
export class PrepaidBook {
  readonly tenant: string;
  readonly counts: BudgetCounts;
  readonly since: number;
  #settled: bigint;
  #lines: readonly NamedLine[];
  readonly #rows: Map<string, BookRow>;

  constructor(tenant: string, counts: BudgetCounts, content: BookContent) {
    this.tenant = tenant;
    this.counts = counts;
    this.since = content.since;
    this.#settled = content.settled;
    this.#lines = content.lines;
    this.#rows = new Map(content.rows.map((row) => [nameOf(row), row]));
  }

  get content(): BookContent {
    const { since } = this;
    return { since, settled: this.#settled, lines: this.#lines, rows: [...this.#rows.values()] };
  }

  /** Adds an event of the ledger, or a sum of some before the book began; false where it is of no concern. */
  add(item: UsageItem): boolean {
    const { counts, since } = this;
    if (counts.kind === 'metric' && item.metric !== counts.metric) return false;
    const at = Date.parse(item.window_start);
    const isBefore = at < since;
    // Only prices have tiers to fill, in the month in which the book begins.
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

  /** The account of the balance, with nothing of what goes on. */
  account(pricesOf: PricesOf): BudgetAccount {
    const account = this.#empty(pricesOf);
    account.resume(this.#settled, this.#lines);
    for (const row of this.#rows.values()) account.add(this.#itemOf(row));
    return account;
  }

  /**
   * Makes it smaller: days that are over for long are added up by price, and months that end by `closedUntil`, of which
   * nothing comes any more, to one sum.
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
    const rest: NamedLine[] = [];
    for (const [name, line] of account.lines()) {
      if (endOf(name) > closedUntil || this.#isOpen(name)) rest.push([name, line]);
      else this.#settled += lineCost(line, line.used);
    }
    this.#lines = rest;
  }

  /** Whether days of a line's month are still kept as they were used. */
  #isOpen(name: string): boolean {
    const month = monthOfLine(name);
    return [...this.#rows.values()].some(({ start }) => dayOf(start).slice(0, 7) === month);
  }

  #empty(pricesOf: PricesOf): BudgetAccount {
    const { tenant, counts, since } = this;
    const period = { from: since, to: Number.POSITIVE_INFINITY };
    return new BudgetAccount({ tenant, counts, period, pricesOf });
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

/** The end of a line's month; of a line that all months share there is none. */
function endOf(name: string): number {
  const month = monthOfLine(name);
  if (month === undefined) return Number.POSITIVE_INFINITY;
  const first = new Date(`${month}-01T00:00:00Z`);
  return Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1);
}
