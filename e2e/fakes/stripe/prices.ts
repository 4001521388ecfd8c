import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { mergeMetadata, metadataProblem } from './metadata.ts';
import { type Form, items, nested, text, texts } from './form.ts';
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
  'tiers',
  'tiers_mode',
  'lookup_key',
  'tax_behavior',
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
  const lookupKey = text(form, 'lookup_key') ?? null;
  if (
    lookupKey !== null &&
    [...state.prices.values()].some((one) => one.lookup_key === lookupKey)
  ) {
    return invalid(`A price already uses the lookup key: ${lookupKey}`);
  }
  const tiers = readTiers(form);
  if (text(form, 'billing_scheme') === 'tiered' && tiers === undefined) {
    return invalid('Invalid tiers');
  }
  const price: Price = {
    id: nextId(state, 'price'),
    created: Math.floor(at / 1000),
    currency,
    currencyOptions: Object.keys(nested(form, 'currency_options')),
    product,
    unit_amount_decimal: amount ?? null,
    tiers_mode:
      tiers === undefined ? null : text(form, 'tiers_mode') === 'volume' ? 'volume' : 'graduated',
    tiers,
    lookup_key: lookupKey,
    interval,
    meter,
    tax_behavior: text(form, 'tax_behavior') ?? state.rules.tax?.behavior ?? 'unspecified',
    active: text(form, 'active') !== 'false',
    nickname: text(form, 'nickname') ?? null,
    metadata,
  };
  state.prices.set(price.id, price);
  return ok(showPrice(price));
}

/** Reads ascending tiers, the last one without an end; undefined for others. */
function readTiers(form: Form): Price['tiers'] {
  const tiers = items(form, 'tiers').map((tier) => ({
    up_to: text(tier, 'up_to') === 'inf' ? null : Number(text(tier, 'up_to')),
    unit_amount_decimal: text(tier, 'unit_amount_decimal') ?? '0',
  }));
  const isComplete = tiers.every(({ up_to }, index) => {
    const before = index === 0 ? 0 : (tiers[index - 1]?.up_to ?? 0);
    if (index === tiers.length - 1) return up_to === null;
    return Number.isSafeInteger(up_to) && Number(up_to) > before;
  });
  return tiers.length > 0 && isComplete ? tiers : undefined;
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
  const known = [
    'active',
    'type',
    'currency',
    'product',
    'recurring',
    'expand',
    'lookup_keys',
    ...PAGING,
  ];
  const unknown = unknownParameter(query, known);
  if (unknown !== undefined) return unknown;
  const active = text(query, 'active');
  const usage = text(query, 'recurring', 'usage_type');
  const meter = text(query, 'recurring', 'meter');
  const currency = text(query, 'currency');
  const keys = Object.values(texts(query, 'lookup_keys'));
  const found = [...state.prices.values()].filter(
    (price) =>
      (active === undefined || String(price.active) === active) &&
      (usage === undefined || usageType(price) === usage) &&
      (meter === undefined || price.meter === meter) &&
      (currency === undefined || price.currency === currency) &&
      (keys.length === 0 || keys.includes(price.lookup_key ?? '')),
  );
  const expanded = Object.values(texts(query, 'expand'));
  const isExpanded = expanded.includes('data.currency_options');
  return page('/v1/prices', query, found, (price) => ({
    ...showPrice(price, isExpanded),
    ...(expanded.includes('data.tiers') && price.tiers !== undefined && { tiers: price.tiers }),
  }));
}

function usageType({ meter }: Price): string {
  return meter === null ? 'licensed' : 'metered';
}

/** Returns a price. `isExpanded` adds the currencies, which Stripe leaves out otherwise. */
export function showPrice(price: Price, isExpanded = false): object {
  const { interval, meter, unit_amount_decimal, currencyOptions, tiers, ...rest } = price;
  const amount = { unit_amount_decimal };
  const options = [rest.currency, ...currencyOptions].map((currency) => [currency, amount]);
  return {
    ...rest,
    ...(isExpanded && { currency_options: Object.fromEntries(options) }),
    object: 'price',
    type: interval === undefined ? 'one_time' : 'recurring',
    billing_scheme: tiers === undefined ? 'per_unit' : 'tiered',
    livemode: false,
    unit_amount: unit_amount_decimal === null ? null : Math.round(Number(unit_amount_decimal)),
    unit_amount_decimal,
    recurring:
      interval === undefined
        ? null
        : { interval, interval_count: 1, meter, usage_type: usageType(price) },
  };
}
