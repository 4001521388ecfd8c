import { type Exact, exact, minus, parseExact, plus, sum, times, ZERO } from '../exact.ts';
import { isObject, text, texts } from './answers.ts';
import { counts } from './metrics.ts';
import { latestOfEach, productAt } from './pricing.ts';
import {
  type Contract,
  customerOf,
  type InvoiceLine,
  type Metric,
  type MetronomeState,
  type Product,
  type Rate,
  type StoredEvent,
} from './state.ts';

const MOST_DECIMALS = 20;

/**
 * Returns a contract's usage in a time range: the quantity of each product and rate, at the rate in
 * force at the time of the usage
 * (https://docs.metronome.com/invoice-customers/how-invoicing-works/).
 */
export function linesOf(
  state: MetronomeState,
  contract: Contract,
  from: number,
  to: number,
): readonly InvoiceLine[] {
  const events = eventsOf(state, contract, from, to);
  return state.products.flatMap((product) => {
    const priced = events.flatMap((event) => {
      const rate = rateOf(state, contract, product, event);
      return rate === undefined ? [] : [{ event, rate }];
    });
    return [...Map.groupBy(priced, ({ rate }) => rate)].map(([rate, uses]) =>
      line(
        state,
        product,
        rate,
        uses.map(({ event }) => event),
      ),
    );
  });
}

/**
 * Returns the events that a contract bills: of its customer, in its time, through its usage filter.
 */
export function eventsOf(
  state: MetronomeState,
  contract: Contract,
  from: number,
  to: number,
): readonly StoredEvent[] {
  return state.events.filter((event) => {
    const at = Date.parse(event.timestamp);
    return (
      at >= from &&
      at < to &&
      customerOf(state, event.customer_id)?.id === contract.customer_id &&
      contract.usage_filter.every((filter) => passes(filter, event))
    );
  });
}

function passes(filter: unknown, { properties }: StoredEvent): boolean {
  if (!isObject(filter)) return true;
  const key = text(filter['group_key']);
  return key === undefined || texts(filter['group_values']).includes(String(properties[key]));
}

/**
 * Returns the rate of a product that prices an event: the one with most group values, then the
 * latest.
 */
export function rateOf(
  state: MetronomeState,
  contract: Contract,
  product: Product,
  event: StoredEvent,
): Rate | undefined {
  const at = Date.parse(event.timestamp);
  const metric = metricOf(state, product, at);
  if (metric === undefined || !counts(metric, event)) return undefined;
  const keys = ({ pricing_group_values = {} }: Rate) => Object.entries(pricing_group_values);
  const inForce = state.rates.filter(
    (rate) =>
      rate.rate_card_id === contract.rate_card_id &&
      rate.product_id === product.id &&
      Date.parse(rate.starting_at) <= at &&
      (rate.ending_before === undefined || at < Date.parse(rate.ending_before)) &&
      keys(rate).every(([key, value]) => event.properties[key] === value),
  );
  // A rate without entitlement bills nothing, but replaces an earlier one like any other.
  return latestOfEach(inForce)
    .filter(({ entitled }) => entitled)
    .toSorted((a, b) => keys(b).length - keys(a).length)
    .at(0);
}

export function metricOf(state: MetronomeState, product: Product, at: number): Metric | undefined {
  const { billable_metric_id } = productAt(product, at);
  return state.metrics.find(({ id }) => id === billable_metric_id);
}

function line(
  state: MetronomeState,
  product: Product,
  rate: Rate,
  events: readonly StoredEvent[],
): InvoiceLine {
  const [first] = events;
  const at = Date.parse(first?.timestamp ?? '');
  const quantity = aggregated(metricOf(state, product, at), events);
  const price = priceOf(rate);
  return {
    product_id: product.id,
    name: productAt(product, at).name,
    values: rate.pricing_group_values ?? {},
    quantity,
    price,
    total: rate.tiers === undefined ? times(quantity, price) : graduated(rate.tiers, quantity),
    events,
  };
}

/** Prices the units of each tier at its own price. */
function graduated(tiers: NonNullable<Rate['tiers']>, quantity: Exact): Exact {
  let rest = quantity;
  let total = ZERO;
  for (const { price, size } of tiers) {
    const most = size === undefined ? rest : exact(String(size));
    const own = minus(rest, most).digits < 0n ? rest : most;
    total = plus(total, times(own, exact(String(price))));
    rest = minus(rest, own);
  }
  return total;
}

function aggregated(metric: Metric | undefined, events: readonly StoredEvent[]): Exact {
  if (metric?.aggregation_type === 'COUNT') return exact(String(events.length));
  return sum(events.map((event) => valueOf(metric, event)));
}

/** Returns what an event adds to a sum. */
export function valueOf(metric: Metric | undefined, { properties }: StoredEvent): Exact {
  return parseExact(String(properties[metric?.aggregation_key ?? ''])) ?? ZERO;
}

/** A rate's price is a JSON number. */
function priceOf({ price }: Rate): Exact {
  return parseExact(String(price)) ?? exact(price.toFixed(MOST_DECIMALS));
}
