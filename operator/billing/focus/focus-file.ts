import { DECIMAL_PLACES, nanosFromDecimal } from '../../model/decimal.ts';
import { COST_PLACES } from '../../model/pricing/charges.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { UsageItem } from '../usage/usage-sums.ts';
import type { FocusRow } from './columns.ts';
import { MonthCharges } from './month-charges.ts';
import { type AddUsage, usageInOrder } from './period-usage.ts';
import { type BillingMonth, type FocusNames, numberText, roundingRow, usageRow } from './rows.ts';
import { focusUnit } from './services.ts';

/** Sums of a file, for comparison with `/api/v1/usage` and `/api/v1/costs`. */
export interface FocusSums {
  /** By tenant, metric, unit and currency, in that order. */
  readonly charged: readonly SumRow[];
  /** Usage without a price, which a file cannot contain. */
  readonly unpriced: readonly SumRow[];
  /** Usage of informational metrics, such as downtime, which is charged nowhere. */
  readonly not_charged: readonly SumRow[];
}

/** Numbers are exact decimal text. */
interface SumRow {
  readonly tenant: string;
  readonly metric: string;
  readonly unit: string;
  readonly currency?: string;
  readonly quantity: string;
  /** Σ BilledCost. */
  readonly cost?: string;
}

interface FocusFileOptions {
  readonly month: BillingMonth;
  /** Whether all windows of the month are closed. The rounding of invoice lines is known then. */
  readonly closed: boolean;
  readonly add: AddUsage;
  readonly pricesOf: PricesOf;
  /** Whether usage of a metric is charged; informational metrics are not. */
  readonly isCharged: (metric: string) => boolean;
  readonly names: FocusNames;
}

/** The FOCUS rows of a month (docs/reference/focus.md). */
export class FocusFile {
  readonly #options: FocusFileOptions;
  readonly #charged = new ExactSums();
  readonly #unpriced = new ExactSums();
  readonly #notCharged = new ExactSums();

  constructor(options: FocusFileOptions) {
    this.#options = options;
  }

  /** All rows in time order. Read them once. Throws where usage of the month is unknown. */
  async *rows(): AsyncGenerator<FocusRow> {
    const { month, closed, add, pricesOf, isCharged, names } = this.#options;
    const charges = new MonthCharges(pricesOf);
    await add(charges.month(), month, false);
    for await (const usage of usageInOrder(add, month, month.grain)) {
      const { item } = usage;
      const nanos = nanosFromDecimal(item.quantity);
      if (!isCharged(item.metric)) {
        this.#notCharged.add(item, nanos);
        continue;
      }
      const charged = charges.charge(usage);
      if (charged === 'unpriced') {
        this.#unpriced.add(item, nanos);
        continue;
      }
      for (const one of charged) {
        this.#charged.add(item, one.nanos, one.nanos * one.picos, one.prices.currency);
        yield usageRow(one, month, names);
      }
    }
    for (const rounding of closed ? charges.roundings() : []) {
      this.#charged.add(rounding.item, 0n, rounding.cost, rounding.prices.currency);
      yield roundingRow(rounding, month, names);
    }
  }

  /** The sums of the rows that were read. */
  sums(): FocusSums {
    return {
      charged: this.#charged.rows(),
      unpriced: this.#unpriced.rows(),
      not_charged: this.#notCharged.rows(),
    };
  }
}

type Key = readonly [tenant: string, metric: string, unit: string, currency?: string];

/** Exact sums by tenant, metric, unit and currency. */
class ExactSums {
  readonly #sums = new Map<string, { readonly key: Key; nanos: bigint; cost: bigint }>();

  /** `cost` is in 10⁻²¹ of the currency. */
  add({ tenant, metric, unit }: UsageItem, nanos: bigint, cost = 0n, currency?: string): void {
    const key: Key = [tenant, metric, unit, currency];
    const name = JSON.stringify(key);
    const sum = this.#sums.get(name) ?? { key, nanos: 0n, cost: 0n };
    this.#sums.set(name, sum);
    sum.nanos += nanos;
    sum.cost += cost;
  }

  rows(): readonly SumRow[] {
    return [...this.#sums]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, { key, nanos, cost }]) => {
        const [tenant, metric, unit, currency] = key;
        const quantity = numberText(nanos, DECIMAL_PLACES);
        const sum = { tenant, metric, unit: focusUnit(unit), quantity };
        return currency === undefined
          ? sum
          : { ...sum, currency, cost: numberText(cost, COST_PLACES) };
      });
  }
}
