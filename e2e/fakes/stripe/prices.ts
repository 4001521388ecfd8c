import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { mergeMetadata, metadataProblem } from './metadata.ts';
import { type Form, nested, text, texts } from './form.ts';
import { page, PAGING, unknownParameter } from './lists.ts';
import { nextId, type Price, type StripeState } from './state.ts';

const INTERVALS = ['day', 'week', 'month', 'year'];
const CREATE = [
  'currency',
  'product',
  'product_data',
  'unit_amount',
  'unit_amount_decimal',
  'recurring',
  'billing_scheme',
  'metadata',
  'nickname',
  'active',
  'currency_options',
];

export function createPrice(state: StripeState, form: Form, at: number): FakeResponse {
  const metadata = texts(form, 'metadata');
  const problem = unknownParameter(form, CREATE) ?? metadataProblem(metadata);
  if (problem !== undefined) return problem;
  const currency = text(form, 'currency') ?? '';
  const interval = text(form, 'recurring', 'interval') ?? '';
  const meter = text(form, 'recurring', 'meter') ?? null;
  const product = text(form, 'product') ?? text(form, 'product_data', 'name');
  const amount = text(form, 'unit_amount_decimal') ?? text(form, 'unit_amount');
  if (!/^[a-z]{3}$/.test(currency)) return invalid('Invalid currency');
  if (!INTERVALS.includes(interval)) return invalid('Invalid recurring[interval]');
  if (product === undefined) return invalid('You must specify product or product_data.');
  if (amount !== undefined && !/^\d+(\.\d{1,12})?$/.test(amount)) return invalid('Invalid amount');
  if (text(form, 'recurring', 'usage_type') === 'metered' && meter === null) {
    return invalid('Metered prices need a meter.');
  }
  if (meter !== null && !state.meters.has(meter)) return missing('billing.meter', meter);
  const price: Price = {
    id: nextId(state, 'price'),
    created: Math.floor(at / 1000),
    currency,
    currencyOptions: Object.keys(nested(form, 'currency_options')),
    product,
    unit_amount_decimal: amount ?? null,
    interval,
    meter,
    active: text(form, 'active') !== 'false',
    nickname: text(form, 'nickname') ?? null,
    metadata,
  };
  state.prices.set(price.id, price);
  return ok(showPrice(price));
}

export function showOnePrice(state: StripeState, id: string): FakeResponse {
  const price = state.prices.get(id);
  return price === undefined ? missing('price', id) : ok(showPrice(price));
}

export function updatePrice(state: StripeState, id: string, form: Form): FakeResponse {
  const price = state.prices.get(id);
  if (price === undefined) return missing('price', id);
  const unknown = unknownParameter(form, ['active', 'metadata', 'nickname']);
  if (unknown !== undefined) return unknown;
  const active = text(form, 'active');
  if (active !== undefined) price.active = active === 'true';
  price.metadata = mergeMetadata(price.metadata, texts(form, 'metadata'));
  return ok(showPrice(price));
}

export function listPrices(state: StripeState, query: Form): FakeResponse {
  const known = ['active', 'type', 'currency', 'product', 'recurring', 'expand', ...PAGING];
  const unknown = unknownParameter(query, known);
  if (unknown !== undefined) return unknown;
  const active = text(query, 'active');
  const usage = text(query, 'recurring', 'usage_type');
  const meter = text(query, 'recurring', 'meter');
  const currency = text(query, 'currency');
  const found = [...state.prices.values()].filter(
    (price) =>
      (active === undefined || String(price.active) === active) &&
      (usage === undefined || usageType(price) === usage) &&
      (meter === undefined || price.meter === meter) &&
      (currency === undefined || price.currency === currency),
  );
  const isExpanded = Object.values(texts(query, 'expand')).includes('data.currency_options');
  return page('/v1/prices', query, found, (price) => showPrice(price, isExpanded));
}

function usageType({ meter }: Price): string {
  return meter === null ? 'licensed' : 'metered';
}

/** `isExpanded` shows the currencies as well, which Stripe leaves out otherwise. */
export function showPrice(price: Price, isExpanded = false): unknown {
  const { interval, meter, unit_amount_decimal, currencyOptions, ...rest } = price;
  const amount = { unit_amount_decimal };
  const options = [rest.currency, ...currencyOptions].map((currency) => [currency, amount]);
  return {
    ...rest,
    ...(isExpanded && { currency_options: Object.fromEntries(options) }),
    object: 'price',
    type: 'recurring',
    billing_scheme: 'per_unit',
    livemode: false,
    unit_amount: unit_amount_decimal === null ? null : Math.round(Number(unit_amount_decimal)),
    unit_amount_decimal,
    recurring: { interval, interval_count: 1, meter, usage_type: usageType(price) },
  };
}
