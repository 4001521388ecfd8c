import { type Decimal, nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import type { Charge } from '../../model/price-book.ts';
import { dependsOnMonth, unitCost } from '../../model/pricing/charges.ts';
import type { FoundPrice } from '../../model/pricing/find-price.ts';
import { shareOut } from '../../model/pricing/money.ts';
import type { PlanPrices, PricesOf } from './plan-prices.ts';
import { createKeyReaders, type Summands, type UsageItem } from './usage-sums.ts';

/** One row of costs: its values in the order of the keys. */
export interface CostRow {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  /** Absent where the tenant's plan has no prices at all. */
  readonly currency?: string;
  readonly events: number;
  /** All of it, priced or not. */
  readonly quantity: Decimal;
  /** How much of it has no price; absent where everything has one. */
  readonly unpriced?: Decimal;
  /** Absent where nothing of it has a price, which is not the same as 0. */
  readonly cost?: Cost;
}

export interface Cost {
  readonly minorUnits: bigint;
  /** Fraction digits of the currency. */
  readonly digits: number;
}

/** What one price comes to for one tenant, plan and calendar month: rounded as one (docs/how-to/costs.md#rounding). */
interface Line {
  readonly charge: Charge;
  readonly digits: number;
  /** Of the whole month, as far as it is summed; counts where the charge depends on it. */
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

/** What an item costs by. */
interface Pricing {
  readonly prices: PlanPrices | undefined;
  readonly price: FoundPrice | undefined;
}

/** Keys beside those of usage, by what prices it; a dimension of such a name cannot be grouped by. */
const PRICING_KEYS: ReadonlyMap<string, (pricing: Pricing) => string | undefined> = new Map([
  ['plan', ({ prices }: Pricing) => prices?.plan],
  ['price', ({ price }: Pricing) => price?.name],
]);

/** Whether costs have a value of the key that usage has not. */
export function isPricingKey(key: string): boolean {
  return PRICING_KEYS.has(key);
}

/**
 * Exact costs per group, metric, unit and currency (docs/how-to/costs.md). What is asked for is added with {@link add}; where
 * {@link dependsOnMonths} is true then, the whole calendar months that it touches are added to {@link months}, without any filter
 * but tenant and metric.
 */
export class CostSums implements Summands {
  readonly #pricesOf: PricesOf;
  readonly #maxParts: number;
  readonly #readers: readonly ((item: UsageItem, pricing: Pricing) => string | undefined)[];
  readonly #rows = new Map<string, Row>();
  readonly #lines = new Map<string, Line>();
  #parts = 0;

  /** Memory is bounded by `maxParts`, of which each row has one for each line that it takes part in. */
  constructor(groupBy: readonly string[], maxParts: number, pricesOf: PricesOf) {
    this.#readers = groupBy.map(readerOf);
    this.#maxParts = maxParts;
    this.#pricesOf = pricesOf;
  }

  /** False when there are too many rows or lines; nothing is added then. */
  add(item: UsageItem, events = 1): boolean {
    const pricing = this.#pricingOf(item);
    const keys = this.#readers.map((read) => read(item, pricing) ?? '');
    const currency = pricing.prices?.currency;
    const name = [...keys, item.metric, item.unit, currency ?? ''].join('\0');
    const lineName = nameOfLine(item, pricing);
    if (!this.#hasPart(name, lineName)) {
      if (this.#parts >= this.#maxParts) return false;
      this.#parts += 1;
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

  /** Whether something of what was added costs what the whole month makes of it. */
  get dependsOnMonths(): boolean {
    return [...this.#lines.values()].some(({ charge }) => dependsOnMonth(charge));
  }

  /** Takes everything of the months; what belongs to no line is passed over. */
  months(): Summands {
    return {
      add: (item) => {
        const line = this.#lines.get(nameOfLine(item, this.#pricingOf(item)) ?? '');
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

  /** By the name of the row. Parts are in the order of the rows, so that the order of events makes no difference. */
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

  #pricingOf(item: UsageItem): Pricing {
    const day = item.window_start.slice(0, 10);
    const prices = this.#pricesOf(item.tenant, day);
    return { prices, price: prices?.finder.find(item, day) };
  }

  #hasPart(row: string, line: string | undefined): boolean {
    if (line === undefined) return this.#rows.has(row);
    return this.#lines.get(line)?.parts.has(row) === true;
  }

  #lineOf(name: string | undefined, { prices, price }: Pricing): Line | undefined {
    if (name === undefined || prices === undefined || price === undefined) return undefined;
    const known = this.#lines.get(name);
    if (known !== undefined) return known;
    const { charge } = price;
    const line: Line = { charge, digits: prices.digits, monthNanos: 0n, parts: new Map() };
    this.#lines.set(name, line);
    return line;
  }
}

/** Tenant, plan, price, rate, unit and month; undefined for what has no price. */
function nameOfLine(item: UsageItem, { prices, price }: Pricing): string | undefined {
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
