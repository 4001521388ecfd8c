import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { instant, isObject, objects, ok, page, refused, text, texts } from './answers.ts';
import type { MetronomeState, Product, ProductState, Rate } from './state.ts';

const HOUR_MS = 3_600_000;
const USD = { id: '2714e483-4ff1-48e4-9e25-ac732e8f24f2', name: 'USD (cents)' };
const FIAT = new Map([
  [USD.id, USD.name],
  ['2714e483-4ff1-48e4-9e25-ac732e8f24f3', 'EUR'],
]);

export function createProduct(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const name = text(input['name']);
  if (name === undefined) return refused(400, 'name is required');
  const initial = { name, created_at: new Date(at).toISOString(), ...stateOf(input) };
  const problem = keysProblem(state, initial);
  if (problem !== undefined) return refused(400, problem);
  const product = {
    id: state.nextId(),
    type: text(input['type']) ?? 'USAGE',
    initial,
    updates: [],
  };
  state.products.push(product);
  return ok({ id: product.id });
}

/** Updates a product. A change must begin on a full hour. */
export function updateProduct(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const product = state.products.find(({ id }) => id === input['product_id']);
  if (product === undefined) return refused(404, 'Product not found');
  const from = instant(input['starting_at']);
  if (from === undefined || from % HOUR_MS !== 0) {
    return refused(400, 'starting_at must be on an hour boundary');
  }
  const change = stateOf(input);
  const problem = keysProblem(state, { ...productAt(product, from), ...change });
  if (problem !== undefined) return refused(400, problem);
  const created_at = new Date(at).toISOString();
  product.updates.push({ ...change, starting_at: new Date(from).toISOString(), created_at });
  return ok({ id: product.id });
}

export function listProducts(state: MetronomeState, { query, at }: FakeRequest): FakeResponse {
  const shown = state.products.map((product) => ({ ...product, current: productAt(product, at) }));
  return page(shown, query);
}

/** Returns a product's state at a moment. */
export function productAt({ initial, updates }: Product, at: number): ProductState {
  const begun = updates
    .filter(({ starting_at }) => Date.parse(starting_at) <= at)
    .toSorted((a, b) => Date.parse(a.starting_at) - Date.parse(b.starting_at));
  return Object.assign({}, initial, ...begun) as ProductState;
}

function stateOf(input: Readonly<Record<string, unknown>>): Partial<ProductState> {
  const name = text(input['name']);
  const metric = text(input['billable_metric_id']);
  const pricing = input['pricing_group_key'];
  const presentation = input['presentation_group_key'];
  return {
    ...(name !== undefined && { name }),
    ...(metric !== undefined && { billable_metric_id: metric }),
    ...(Array.isArray(pricing) && { pricing_group_key: texts(pricing) }),
    ...(Array.isArray(presentation) && { presentation_group_key: texts(presentation) }),
  };
}

/**
 * Returns an error unless pricing and presentation keys together are one compound key of the
 * metric.
 */
function keysProblem(state: MetronomeState, product: ProductState): string | undefined {
  const metric = state.metrics.find(({ id }) => id === product.billable_metric_id);
  if (metric === undefined) return 'billable_metric_id is not a billable metric';
  const keys = new Set([
    ...(product.pricing_group_key ?? []),
    ...(product.presentation_group_key ?? []),
  ]);
  if (keys.size === 0) return undefined;
  const fits = metric.group_keys.some(
    (compound) => compound.length === keys.size && compound.every((key) => keys.has(key)),
  );
  return fits ? undefined : 'group keys of the product are not a group key of the billable metric';
}

export function createRateCard(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const name = text(input['name']);
  if (name === undefined) return refused(400, 'name is required');
  const id = text(input['fiat_credit_type_id']) ?? USD.id;
  const fiat = FIAT.get(id);
  if (fiat === undefined) return refused(400, 'fiat_credit_type_id is not a fiat credit type');
  const description = text(input['description']);
  const card = {
    id: state.nextId(),
    name,
    created_at: new Date(at).toISOString(),
    aliases: objects(input['aliases']),
    description,
    fiat_credit_type: { id, name: fiat },
  };
  state.rateCards.push(card);
  return ok({ id: card.id });
}

export function listRateCards(state: MetronomeState, { query }: FakeRequest): FakeResponse {
  return page(
    state.rateCards.map((card) => ({ ...card, created_by: 'operator' })),
    query,
  );
}

export function listCreditTypes({ query }: FakeRequest): FakeResponse {
  return page(
    [...FIAT].map(([id, name]) => ({ id, name, is_currency: true })),
    query,
  );
}

export function addRates(
  state: MetronomeState,
  rateCardId: unknown,
  rates: readonly Readonly<Record<string, unknown>>[],
): FakeResponse {
  const card = state.rateCards.find(({ id }) => id === rateCardId);
  if (card === undefined) return refused(404, 'Rate card not found');
  const made: Rate[] = [];
  for (const input of rates) {
    const product = state.products.find(({ id }) => id === input['product_id']);
    if (product === undefined) return refused(400, 'product_id is not a product');
    if (instant(input['starting_at']) === undefined) return refused(400, 'starting_at is required');
    const isTiered = input['rate_type'] === 'TIERED';
    const tiers = isTiered ? readTiers(input['tiers']) : undefined;
    if (isTiered && tiers === undefined) return refused(400, 'tiers are not valid');
    const price = Number(isTiered ? tiers?.[0]?.price : input['price']);
    if (!(price >= 0)) return refused(400, 'price must not be negative');
    const values = input['pricing_group_values'];
    made.push({
      rate_card_id: card.id,
      product_id: product.id,
      starting_at: String(input['starting_at']),
      ...(instant(input['ending_before']) !== undefined && {
        ending_before: String(input['ending_before']),
      }),
      entitled: input['entitled'] === true,
      rate_type: isTiered ? 'TIERED' : 'FLAT',
      price,
      tiers,
      ...(isObject(values) && { pricing_group_values: values as Record<string, string> }),
    });
  }
  state.rates.push(...made);
  return ok({ id: card.id });
}

function readTiers(input: unknown): Rate['tiers'] {
  const tiers = objects(input).map(({ price, size }) => ({
    price: Number(price),
    ...(typeof size === 'number' && { size }),
  }));
  const isComplete = tiers.every(
    ({ price, size }, index) => price >= 0 && (size === undefined) === (index === tiers.length - 1),
  );
  return tiers.length > 0 && isComplete ? tiers : undefined;
}

export function getRates(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  { query }: FakeRequest,
): FakeResponse {
  const card = state.rateCards.find(({ id }) => id === input['rate_card_id']);
  const at = instant(input['at']);
  if (card === undefined) return refused(404, 'Rate card not found');
  if (at === undefined) return refused(400, 'at is required');
  const inForce = state.rates.filter(
    (rate) =>
      rate.rate_card_id === card.id &&
      Date.parse(rate.starting_at) <= at &&
      (rate.ending_before === undefined || at < Date.parse(rate.ending_before)),
  );
  const found = latestOfEach(inForce);
  const shown = found.map(({ rate_card_id: _card, price, tiers, rate_type, ...rate }) => {
    const product = state.products.find(({ id }) => id === rate.product_id);
    return {
      ...rate,
      product_name: product?.initial.name ?? '',
      product_tags: [],
      product_custom_fields: {},
      rate: {
        rate_type,
        ...(tiers === undefined ? { price } : { tiers }),
        credit_type: card.fiat_credit_type,
      },
    };
  });
  return page(shown, query);
}

/**
 * Returns the latest rates. A rate that begins replaces an earlier one of the same product and
 * values.
 */
export function latestOfEach(rates: readonly Rate[]): readonly Rate[] {
  const latest = new Map<string, Rate>();
  for (const rate of rates) {
    const values = Object.entries(rate.pricing_group_values ?? {}).toSorted(([a], [b]) =>
      a < b ? -1 : 1,
    );
    const key = JSON.stringify([rate.product_id, values]);
    const known = latest.get(key);
    const isLater =
      known === undefined || Date.parse(rate.starting_at) >= Date.parse(known.starting_at);
    if (isLater) latest.set(key, rate);
  }
  return [...latest.values()];
}
