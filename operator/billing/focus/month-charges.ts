import { nanosFromDecimal } from '../../model/decimal.ts';
import { unitCost } from '../../model/pricing/charges.ts';
import type { FoundPrice } from '../../model/pricing/find-price.ts';
import { minorUnit, minorUnitsOf } from '../../model/pricing/money.ts';
import { nameOfLine, pricingOf } from '../usage/cost-sums.ts';
import type { PlanPrices, PricesOf } from '../usage/plan-prices.ts';
import type { Summands, UsageItem } from '../usage/usage-sums.ts';
import type { SummedUsage } from '../usage/late-usage.ts';
import { fillTiers, type PricedTier, type TierPart, tiersOf } from './tiers.ts';

/** The part of some usage that lies in one tier of its price. */
export interface ChargedUsage extends SummedUsage, TierPart {
  readonly prices: PlanPrices;
  readonly price: FoundPrice;
}

/** What the rounding of an invoice line adds to its charges, in 10⁻²¹ of the currency. */
export interface LineRounding {
  /** The name of the line, see {@link nameOfLine}. */
  readonly line: string;
  /** Some usage of the line. */
  readonly item: UsageItem;
  readonly prices: PlanPrices;
  readonly price: FoundPrice;
  readonly cost: bigint;
}

interface Line extends Pick<LineRounding, 'item' | 'prices' | 'price'> {
  /** The tiers by the month's quantity. */
  readonly tiers: readonly PricedTier[];
  /** The quantity that is charged so far. */
  nanos: bigint;
  /** Its unrounded cost, in 10⁻²¹ of the currency. */
  cost: bigint;
}

/**
 * The charges of a calendar month, unrounded: each is a price × a quantity
 * (docs/reference/focus.md#money). Use it in three steps:
 * 1. Add all usage of the month to {@link month}, in any order.
 * 2. Pass the usage in time order to {@link charge}: it fills the tiers.
 * 3. When the month is closed, {@link roundings} gives what is missing to the invoice.
 */
export class MonthCharges {
  readonly #pricesOf: PricesOf;
  readonly #monthNanos = new Map<string, bigint>();
  readonly #lines = new Map<string, Line>();

  /** `pricesOf` must give the same prices for the complete month. */
  constructor(pricesOf: PricesOf) {
    this.#pricesOf = pricesOf;
  }

  /** Accepts the usage of the month; the price of a `volume` charge depends on it. */
  month(): Summands {
    return {
      add: (item) => {
        const name = nameOfLine(item, pricingOf(item, this.#pricesOf));
        if (name === undefined) return true;
        const before = this.#monthNanos.get(name) ?? 0n;
        this.#monthNanos.set(name, before + nanosFromDecimal(item.quantity));
        return true;
      },
    };
  }

  /** The charges of the next usage, one for each tier; none where it has no price. */
  charge({ item, events }: SummedUsage): readonly ChargedUsage[] | 'unpriced' {
    const line = this.lineOf(item);
    if (line === undefined) return 'unpriced';
    const { prices, price } = line;
    const nanos = nanosFromDecimal(item.quantity);
    const parts = fillTiers(line.tiers, line.nanos, nanos);
    line.nanos += nanos;
    for (const part of parts) line.cost += part.nanos * part.picos;
    return parts.map((part) => ({ item, events, prices, price, ...part }));
  }

  /**
   * What each invoice line lacks, sorted by line. `before` was called earlier, and is left out.
   * Lines that need no rounding are left out.
   */
  roundings(before: readonly LineRounding[] = []): readonly LineRounding[] {
    const known = new Map(before.map(({ line, cost }) => [line, cost]));
    return [...this.#lines]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([line, { item, prices, price, nanos, cost: charged }]) => {
        const { numerator, denominator } = unitCost(price.charge, nanos);
        const exact = (numerator * nanos) / denominator;
        const invoiced = minorUnitsOf(exact, prices.digits) * minorUnit(prices.digits);
        const cost = invoiced - charged - (known.get(line) ?? 0n);
        return cost === 0n ? [] : [{ line, item, prices, price, cost }];
      });
  }

  /** The invoice line of an item with its tiers; undefined for an item without a price. */
  lineOf(item: UsageItem): Line | undefined {
    const { prices, price } = pricingOf(item, this.#pricesOf);
    const name = nameOfLine(item, { prices, price });
    if (prices === undefined || price === undefined || name === undefined) return undefined;
    const known = this.#lines.get(name);
    if (known !== undefined) return known;
    const tiers = tiersOf(price.charge, this.#monthNanos.get(name) ?? 0n);
    const line: Line = { item, prices, price, tiers, nanos: 0n, cost: 0n };
    this.#lines.set(name, line);
    return line;
  }
}
