import { createHash } from 'node:crypto';
import { DECIMAL_PLACES, nanosFromDecimal } from '../../model/decimal.ts';
import { monthOf, monthRange, PERIOD_MS, periodOf } from '../../model/periods.ts';
import { COST_PLACES } from '../../model/pricing/charges.ts';
import { formatInstant, type TimeRange } from '../../model/window.ts';
import { pricingOf } from '../usage/cost-sums.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { UsageItem } from '../usage/usage-sums.ts';
import type { LateUsage, SummedUsage } from '../usage/late-usage.ts';
import type { FocusRow } from './columns.ts';
import { type ChargedUsage, type LineRounding, MonthCharges } from './month-charges.ts';
import { type AddUsage, PeriodSums, usageInOrder, usageKey, without } from './period-usage.ts';
import {
  type BillingMonth,
  type FocusNames,
  numberText,
  roundingRow,
  unchargedRow,
  usageRow,
} from './rows.ts';
import { DOWNTIME, focusUnit } from './services.ts';

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

/** The rows whose ChargePeriodStart is on one day. */
export interface FocusDay {
  /** `2026-11-21`. */
  readonly day: string;
  /** The rounding of a month is separate from the other rows of its first day. */
  readonly isRounding: boolean;
  /** Changes whenever the rows may have changed. */
  readonly mark: string;
  /** Read them before the next day. Absent if the mark is known. */
  readonly rows?: AsyncIterable<FocusRow>;
}

/** The FOCUS rows of a month (docs/reference/focus.md). */
export class FocusFile {
  readonly #options;
  readonly #charged = new ExactSums();
  readonly #unpriced = new ExactSums();
  readonly #notCharged = new ExactSums();

  constructor(options: {
    readonly month: BillingMonth;
    /** Whether all windows of the month are closed. The rounding of invoice lines is known then. */
    readonly closed: boolean;
    readonly add: AddUsage;
    /** The late usage of a month. */
    readonly late: (month: string) => Promise<Pick<LateUsage, 'brought' | 'moved'>>;
    readonly pricesOf: PricesOf;
    /** Whether usage of a metric is charged; informational metrics are not. */
    readonly isCharged: (metric: string) => boolean;
    /** Whether GPU downtime has rows. */
    readonly hasDowntime: boolean;
    readonly names: FocusNames;
  }) {
    this.#options = options;
  }

  /** All rows, in the order of {@link days}. */
  async *rows(): AsyncGenerator<FocusRow> {
    for await (const { rows } of this.days()) yield* rows ?? [];
  }

  /**
   * The rows by day: first what comes from closed months, then the days of the month, then its
   * rounding. Leaves out the rows of days whose mark is in `known`; without `known` there are no
   * marks. Read them once. Throws where usage of the month is unknown.
   */
  async *days(known?: ReadonlyMap<string, string>): AsyncGenerator<FocusDay> {
    const { month, closed, late, pricesOf } = this.#options;
    const { brought, moved } = await late(monthOf(formatInstant(month.from)));
    const earlier = Map.groupBy(brought, ({ item }) => monthOf(item.window_start));
    for (const [name, usage] of earlier) yield* this.#corrections(name, usage);
    const add = without(moved, this.#options.add);
    const charges = new MonthCharges(pricesOf);
    await add(charges.month(), month, false);
    const marks = createHash('sha256');
    for (let from = month.from; from < month.to; from += PERIOD_MS.day) {
      const range = { from, to: from + PERIOD_MS.day };
      const day = periodOf('day', formatInstant(from));
      const usage = known && (await Array.fromAsync(usageInOrder(add, range, 'day')));
      for (const one of usage ?? []) marks.update(this.#describe(one, charges));
      const mark = marks.copy().digest('hex');
      if (usage === undefined || known?.get(day) !== mark) {
        const rows = this.#rows(usageInOrder(add, range, month.grain), charges);
        yield { day, isRounding: false, mark, rows };
        continue;
      }
      for (const one of usage) this.#charge(one, charges);
      yield { day, isRounding: false, mark };
    }
    if (closed) yield this.#rounding(charges.roundings(), month);
  }

  /** The sums of the rows that were read or left out. */
  sums(): FocusSums {
    return {
      charged: this.#charged.rows(),
      unpriced: this.#unpriced.rows(),
      not_charged: this.#notCharged.rows(),
    };
  }

  /** The days of a closed month with usage that this month bills. */
  async *#corrections(name: string, usage: readonly SummedUsage[]): AsyncGenerator<FocusDay> {
    const { month, closed, add, late, pricesOf } = this.#options;
    const range = monthRange(name);
    const { moved } = await late(name);
    const billed = monthOf(formatInstant(month.from));
    const before = without(
      moved.filter(({ by }) => by >= billed),
      add,
    );
    const charges = new MonthCharges(pricesOf);
    await before(charges.month(), range, false);
    for await (const one of usageInOrder(before, range, 'day')) charges.charge(one);
    const roundings = charges.roundings();
    const sums = new PeriodSums(month.grain);
    for (const { item, events } of usage) sums.add(item, events);
    const days = Map.groupBy(sums.inOrder(), ({ item }) => periodOf('day', item.window_start));
    for (const [day, ofDay] of days) {
      const rows = this.#rows(ofDay, charges, billed);
      yield { day, isRounding: false, mark: '', rows };
    }
    if (closed) yield this.#rounding(charges.roundings(roundings), range, billed);
  }

  async *#rows(
    all: AsyncIterable<SummedUsage> | Iterable<SummedUsage>,
    charges: MonthCharges,
    correctedIn?: string,
  ): AsyncGenerator<FocusRow> {
    const { month, names } = this.#options;
    for await (const usage of all) {
      for (const one of this.#charge(usage, charges)) {
        yield usageRow(one, month, names, correctedIn);
      }
      const down = this.#downtime(usage, correctedIn);
      if (down !== undefined) yield down;
    }
  }

  /** The row of GPU downtime, where it is wanted and the plan of its tenant has a currency. */
  #downtime(usage: SummedUsage, correctedIn?: string): FocusRow | undefined {
    const { hasDowntime, pricesOf, month, names } = this.#options;
    const { item } = usage;
    if (!hasDowntime || item.metric !== DOWNTIME || nanosFromDecimal(item.quantity) === 0n) {
      return undefined;
    }
    const { prices } = pricingOf(item, pricesOf);
    return prices && unchargedRow({ ...usage, prices }, month, names, correctedIn);
  }

  #rounding(roundings: readonly LineRounding[], period: TimeRange, correctedIn?: string): FocusDay {
    const { month, names } = this.#options;
    const charge = async function* rowsOf(charged: ExactSums): AsyncGenerator<FocusRow> {
      for (const one of roundings) {
        charged.add(one.item, 0n, one.cost, one.prices.currency);
        yield roundingRow(one, { month, period, correctedIn }, names);
      }
    };
    const day = periodOf('day', formatInstant(period.from));
    return { day, isRounding: true, mark: '', rows: charge(this.#charged) };
  }

  /** Charges usage and adds it to the sums. */
  #charge(usage: SummedUsage, charges: MonthCharges): readonly ChargedUsage[] {
    const { item } = usage;
    const nanos = nanosFromDecimal(item.quantity);
    if (!this.#options.isCharged(item.metric)) {
      this.#notCharged.add(item, nanos);
      return [];
    }
    const charged = charges.charge(usage);
    if (charged === 'unpriced') {
      this.#unpriced.add(item, nanos);
      return [];
    }
    for (const one of charged) {
      this.#charged.add(item, one.nanos, one.nanos * one.picos, one.prices.currency);
    }
    return charged;
  }

  /** All that the rows of some usage depend on. */
  #describe(summed: SummedUsage, charges: MonthCharges): string {
    const { item, events } = summed;
    const { month, names, isCharged } = this.#options;
    const down = JSON.stringify(this.#downtime(summed)) ?? '';
    const usage = `${usageKey(item)} ${item.quantity} ${events}${down}\n`;
    const line = isCharged(item.metric) ? charges.lineOf(item) : undefined;
    if (line === undefined) return usage;
    const { prices, price, tiers } = line;
    const one = { item, events, prices, price, tier: 1, nanos: 0n, picos: 0n };
    const steps = tiers.map(({ upToNanos, picos }) => `${upToNanos}:${picos}`);
    return `${usage}${JSON.stringify(usageRow(one, month, names))} ${steps.join()}\n`;
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
