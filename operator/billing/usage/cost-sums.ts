import { type Decimal, nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import type { PriceCharge } from '../../model/price-book.ts';
import { dependsOnMonth, unitCost } from '../../model/pricing/charges.ts';
import type { FoundPrice } from '../../model/pricing/find-price.ts';
import { shareOut } from '../../model/pricing/money.ts';
import type { PlanPrices, PricesOf } from './plan-prices.ts';
import { createKeyReaders, type Summands, type UsageItem, type UsageRow } from './usage-sums.ts';

/** One row of costs: its values in the order of the keys. */
export interface CostRow extends UsageRow {
  /** Absent when the tenant's plan has no price book. */
  readonly currency?: string;
  /** The quantity without a price; absent when all of it has one. */
  readonly unpriced?: Decimal;
  /** Absent when none of it has a price, which differs from a cost of 0. */
  readonly cost?: Cost;
}

export interface Cost {
  readonly minorUnits: bigint;
  /** Fraction digits of the currency. */
  readonly digits: number;
}

/**
 * The usage of one price for one tenant, plan and calendar month. Its cost is rounded once
 * (docs/how-to/costs.md#rounding).
 */
interface PricedLine {
  readonly charge: PriceCharge;
  readonly digits: number;
  /**
   * Nano-units of the whole month, as far as they are summed. Matters when the charge depends on
   * it.
   */
  monthNanos: bigint;
  /** Nano-units by the name of the row that they belong to. */
  readonly parts: Map<string, bigint>;
}

interface Row {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  readonly currency: string | undefined;
  events: number;
  nanos: bigint;
  /** Undefined while all of it has a price. */
  unpricedNanos: bigint | undefined;
}

/** What decides the price of an item. */
export interface Pricing {
  readonly prices: PlanPrices | undefined;
  readonly price: FoundPrice | undefined;
}

/**
 * Grouping keys besides those of usage, with the readers of their values. A dimension of such a
 * name cannot be grouped by.
 */
const PRICING_KEYS: ReadonlyMap<string, (pricing: Pricing) => string | undefined> = new Map([
  ['plan', ({ prices }: Pricing) => prices?.plan],
  ['price', ({ price }: Pricing) => price?.name],
]);

/** Returns true for a grouping key that costs have and usage lacks. */
export function isPricingKey(key: string): boolean {
  return PRICING_KEYS.has(key);
}

/**
 * Exact costs per group, metric, unit and currency (docs/how-to/costs.md). Use it in two steps:
 * 1. Add the requested usage with {@link add}.
 * 2. If {@link dependsOnMonths} is true, add the complete calendar months of that range to {@link
 *    months}. Filter those by tenant and metric only.
 */
export class CostSums implements Summands {
  readonly #pricesOf: PricesOf;
  readonly #maxCells: number;
  readonly #readers: readonly ((item: UsageItem, pricing: Pricing) => string | undefined)[];
  readonly #rows = new Map<string, Row>();
  readonly #lines = new Map<string, PricedLine>();
  #cells = 0;

  /** Memory is bounded by `maxCells`. A row has one cell for each line that it belongs to. */
  constructor(groupBy: readonly string[], maxCells: number, pricesOf: PricesOf) {
    this.#readers = groupBy.map(readerOf);
    this.#maxCells = maxCells;
    this.#pricesOf = pricesOf;
  }

  /** Returns false when there are too many cells; then nothing is added. */
  add(item: UsageItem, events = 1): boolean {
    const pricing = pricingOf(item, this.#pricesOf);
    const keys = this.#readers.map((read) => read(item, pricing) ?? '');
    const currency = pricing.prices?.currency;
    const name = [...keys, item.metric, item.unit, currency ?? ''].join('\0');
    const lineName = nameOfLine(item, pricing);
    if (!this.#hasCell(name, lineName)) {
      if (this.#cells >= this.#maxCells) return false;
      this.#cells += 1;
    }
    const { metric, unit } = item;
    const nanos = nanosFromDecimal(item.quantity);
    const fresh = { keys, metric, unit, currency, events: 0, nanos: 0n, unpricedNanos: undefined };
    const row: Row = this.#rows.get(name) ?? fresh;
    this.#rows.set(name, row);
    row.events += events;
    row.nanos += nanos;
    const line = this.#lineOf(lineName, pricing);
    if (line === undefined) row.unpricedNanos = (row.unpricedNanos ?? 0n) + nanos;
    else line.parts.set(name, (line.parts.get(name) ?? 0n) + nanos);
    return true;
  }

  /** True when the price of some added usage depends on the usage of its whole month. */
  get dependsOnMonths(): boolean {
    return [...this.#lines.values()].some(({ charge }) => dependsOnMonth(charge));
  }

  /** Accepts all usage of the months; ignores usage that belongs to no line. */
  months(): Summands {
    return {
      add: (item) => {
        const line = this.#lines.get(nameOfLine(item, pricingOf(item, this.#pricesOf)) ?? '');
        if (line !== undefined) line.monthNanos += nanosFromDecimal(item.quantity);
        return true;
      },
    };
  }

  /** Sorted by keys, then metric, unit and currency. */
  rows(): readonly CostRow[] {
    const costs = this.#costs();
    return [...this.#rows]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { keys, metric, unit, currency, events, nanos, unpricedNanos }]) => ({
        keys,
        metric,
        unit,
        events,
        quantity: signedFromNanos(nanos),
        currency,
        unpriced: unpricedNanos === undefined ? undefined : signedFromNanos(unpricedNanos),
        cost: costs.get(name),
      }));
  }

  /**
   * Costs by row name. The cells of a line are sorted by row, so the order of events makes no
   * difference.
   */
  #costs(): ReadonlyMap<string, Cost> {
    const costs = new Map<string, Cost>();
    for (const { charge, digits, monthNanos, parts } of this.#lines.values()) {
      const sorted = [...parts].toSorted(([a], [b]) => (a < b ? -1 : 1));
      const nanos = sorted.map(([, part]) => part);
      const shares = shareOut(unitCost(charge, monthNanos), nanos, digits);
      for (const [index, [name]] of sorted.entries()) {
        const minorUnits = (costs.get(name)?.minorUnits ?? 0n) + (shares[index] ?? 0n);
        costs.set(name, { minorUnits, digits });
      }
    }
    return costs;
  }

  #hasCell(row: string, line: string | undefined): boolean {
    if (line === undefined) return this.#rows.has(row);
    return this.#lines.get(line)?.parts.has(row) === true;
  }

  #lineOf(name: string | undefined, { prices, price }: Pricing): PricedLine | undefined {
    if (name === undefined || prices === undefined || price === undefined) return undefined;
    const known = this.#lines.get(name);
    if (known !== undefined) return known;
    const { charge } = price;
    const line: PricedLine = { charge, digits: prices.digits, monthNanos: 0n, parts: new Map() };
    this.#lines.set(name, line);
    return line;
  }
}

/** The prices of an item on the day on which its window starts. */
export function pricingOf(item: UsageItem, pricesOf: PricesOf): Pricing {
  const day = item.window_start.slice(0, 10);
  const prices = pricesOf(item.tenant, day);
  return { prices, price: prices?.finder.find(item, day) };
}

/**
 * The invoice line of an item: tenant, plan, price, rate, unit and month. Undefined for an item
 * without a price.
 */
export function nameOfLine(item: UsageItem, { prices, price }: Pricing): string | undefined {
  if (prices === undefined || price === undefined) return undefined;
  const month = item.window_start.slice(0, 7);
  return JSON.stringify([item.tenant, prices.plan, price.name, price.from, item.unit, month]);
}

function readerOf(key: string): (item: UsageItem, pricing: Pricing) => string | undefined {
  const ofPricing = PRICING_KEYS.get(key);
  if (ofPricing !== undefined) return (_item, pricing) => ofPricing(pricing);
  const [read] = createKeyReaders([key]);
  return (item) => read?.(item);
}
