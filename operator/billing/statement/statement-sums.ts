import type { UsageEvent } from '../../model/event.ts';
import type { Price, PriceBook } from '../../model/price-book.ts';
import { chargeFields } from '../../model/pricing/amount.ts';
import { currencyDigits, moneyText } from '../../model/pricing/money.ts';
import type { TimeRange } from '../../model/window.ts';
import { CostSums } from '../usage/cost-sums.ts';
import { costAmounts } from '../usage/cost-totals.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import { UsageSums } from '../usage/usage-sums.ts';

const DAY_MS = 86_400_000;
/** One row for each plan, price and unit: a price book has far fewer. */
const MAX_ROWS = 100_000;

/** What decides the amounts of a statement. */
export interface StatementPrices {
  readonly books: readonly PriceBook[];
  readonly pricesOf: PricesOf;
  /** Whether a metric is never charged for. */
  readonly isInformational: (metric: string) => boolean;
}

/**
 * Sums the usage of one tenant in one month, and collects the prices that it has
 * (docs/how-to/check-a-bill.md#the-file). A price that no event has is left out: it changes
 * nothing, and its conditions may be about others.
 */
export class StatementSums {
  readonly #tenant: string;
  readonly #month: TimeRange;
  readonly #prices: StatementPrices;
  readonly #costs: CostSums;
  readonly #months: ReturnType<CostSums['months']>;
  readonly #informational = new UsageSums([], MAX_ROWS);
  readonly #used = new Map<string, Set<string>>();

  constructor(tenant: string, month: TimeRange, prices: StatementPrices) {
    this.#tenant = tenant;
    this.#month = month;
    this.#prices = prices;
    this.#costs = new CostSums(['plan', 'price'], MAX_ROWS, prices.pricesOf);
    this.#months = this.#costs.months();
  }

  add(event: UsageEvent): void {
    if (this.#prices.isInformational(event.metric)) {
      this.#informational.add(event);
      return;
    }
    this.#costs.add(event);
    this.#months.add(event);
    const day = event.window_start.slice(0, 10);
    const prices = this.#prices.pricesOf(this.#tenant, day);
    const price = prices?.finder.find(event, day);
    if (prices === undefined || price === undefined) return;
    const names = this.#used.get(prices.plan) ?? new Set();
    this.#used.set(prices.plan, names.add(price.name));
  }

  /** The line of the prices. */
  prices(): object {
    const plans = this.#plans();
    const books = this.#prices.books.filter(({ name }) => plans.some(({ plan }) => plan === name));
    return {
      plans,
      books: books.map(({ name, currency, prices }) => ({
        plan: name,
        currency,
        digits: currencyDigits(currency),
        prices: prices
          .filter((price) => this.#used.get(name)?.has(price.name) === true)
          .map((price) => this.#show(price)),
      })),
    };
  }

  /** The line of the sums. Quantities and amounts are decimal text. */
  sums(): object {
    const rows = this.#costs.rows();
    return {
      sums: rows.map(({ keys: [plan, price], cost, ...row }) => ({
        plan: plan === '' ? undefined : plan,
        price: price === '' ? undefined : price,
        ...row,
        cost: cost && moneyText(cost.minorUnits, cost.digits),
      })),
      informational: this.#informational
        .rows()
        .map(({ metric, unit, events, quantity }) => ({ metric, unit, events, quantity })),
      amounts: costAmounts(rows).map(({ currency, cost }) => ({
        currency,
        amount: moneyText(cost.minorUnits, cost.digits),
      })),
    };
  }

  /** The plan from each day on. It is null on days without a price book. */
  #plans(): readonly { readonly from: string; readonly plan: string | null }[] {
    const plans: { readonly from: string; readonly plan: string | null }[] = [];
    for (let at = this.#month.from; at < this.#month.to; at += DAY_MS) {
      const day = dayOf(at);
      const plan = this.#prices.pricesOf(this.#tenant, day)?.plan ?? null;
      if (plans.length === 0 || plans.at(-1)?.plan !== plan) plans.push({ from: day, plan });
    }
    return plans;
  }

  /** A price with the rates of the month. */
  #show({ name, metric, match, rates }: Price): object {
    const [first, last] = [dayOf(this.#month.from), dayOf(this.#month.to - 1)];
    const inForce = rates.findLastIndex(({ from }) => from <= first);
    const ofMonth = rates.slice(Math.max(0, inForce)).filter(({ from }) => from <= last);
    return {
      name,
      metric,
      match,
      rates: ofMonth.map(({ from, charge }) => ({ from, ...(charge && chargeFields(charge)) })),
    };
  }
}

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
