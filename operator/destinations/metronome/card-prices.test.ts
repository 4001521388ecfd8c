import type { Metronome } from '@metronome/sdk';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { chargeText } from '../../model/pricing/amount.ts';
import { tiered } from '../../model/pricing/testing/price-books.ts';
import { bookFor, differencesOf, flatCharge, priceFor, TODAY } from '../testing/price-books.ts';
import { readCharge } from './card-prices.ts';
import { createMetronomeWorld, type MetronomeWorld, NEVER } from './testing/metronome-world.ts';

const GPU = 'tenant_gpu_hours';
const H100 = priceFor(GPU, { sku: 'h100' }, flatCharge('2.4'));
const ANY = priceFor(GPU, {}, flatCharge('0.5'));
const SINCE = '2026-01-01T00:00:00Z';

let world: MetronomeWorld;
let card: string;
beforeEach(async () => {
  world = await createMetronomeWorld({ rateCard: 'standard' });
  card = await world.rateCard('standard');
  await world.bootstrap();
});
afterEach(() => world.close());

/** Makes the product of a metric, like a person does: its prices depend on the SKU. */
function product(name: string, keys: readonly string[] = ['sku']): Promise<string> {
  const metric = world.metronome.state.metrics.find((one) => one.name.endsWith(`[${GPU}]`));
  const others = (metric?.group_keys[0] ?? []).filter((key) => !keys.includes(key));
  return world.asOperator('/v1/contract-pricing/products/create', {
    name,
    type: 'USAGE',
    billable_metric_id: metric?.id,
    pricing_group_key: keys,
    presentation_group_key: others,
  });
}

/** Adds a rate in cents. */
function rate(product_id: string, price: number, change: object = {}): Promise<string> {
  const own = { product_id, price, starting_at: SINCE, entitled: true, rate_type: 'FLAT' };
  const path = '/v1/contract-pricing/rate-cards/addRates';
  return world.asOperator(path, { rate_card_id: card, rates: [{ ...own, ...change }] });
}

describe('prices at Metronome', () => {
  test('are reported where nobody has set them, and nothing is changed there', async () => {
    const writes = () =>
      world.metronome.requests.filter(({ path }) => /create|add|update|archive|edit/.test(path))
        .length;
    const before = writes();
    expect(await differencesOf(world.destination, bookFor([H100, ANY]))).toStrictEqual([
      `${GPU}{sku="h100"} has no price: 2.4 by "${H100.name}"`,
      `${GPU} has no price: 0.5 by "${ANY.name}"`,
    ]);
    expect(writes()).toBe(before);
  });

  test('are the same when the rates in force are as in the book', async () => {
    const gpus = await product('GPU hours');
    await rate(gpus, 300, { pricing_group_values: { sku: 'h100' } });
    await rate(gpus, 240, {
      pricing_group_values: { sku: 'h100' },
      starting_at: '2026-11-01T00:00:00Z',
    });
    await rate(gpus, 50);
    await rate(gpus, 9, {
      pricing_group_values: { sku: 'old' },
      ending_before: '2026-11-01T00:00:00Z',
    });
    expect(await differencesOf(world.destination, bookFor([H100, ANY]))).toStrictEqual([]);
  });

  test('are those of the day that is requested', async () => {
    const gpus = await product('GPU hours');
    await rate(gpus, 50);
    await rate(gpus, 60, { starting_at: '2026-12-01T00:00:00Z' });
    expect(await differencesOf(world.destination, bookFor([ANY]))).toStrictEqual([]);
    expect(await differencesOf(world.destination, bookFor([ANY]), '2026-12-01')).toStrictEqual([
      `${GPU} costs 0.6 instead of 0.5 by "${ANY.name}"`,
    ]);
  });

  test('of products that bill nothing of ours are none of ours', async () => {
    const { id } = world.metronome.state.metrics.find((one) => !one.name.includes(GPU)) ?? {};
    const other = await world.asOperator('/v1/contract-pricing/products/create', {
      name: 'Other',
      type: 'USAGE',
      billable_metric_id: id,
    });
    await rate(other, 1);
    await rate(await product('GPU hours'), 50);
    expect(await differencesOf(world.destination, bookFor([ANY]))).toStrictEqual([]);
  });

  test('are charged twice by a second product of the metric', async () => {
    await rate(await product('GPU hours'), 50);
    await rate(await product('GPUs again'), 50);
    expect(await differencesOf(world.destination, bookFor([ANY]))).toStrictEqual([
      `${GPU} by product "GPUs again" costs 0.5 and is in no price of the book`,
    ]);
  });

  test('cannot depend on what the product has no key for, and be of another currency or volume tiers', async () => {
    await product('GPU hours');
    const eu = priceFor(GPU, { region: 'eu' }, flatCharge('1'));
    expect(await differencesOf(world.destination, bookFor([eu]))).toStrictEqual([
      `${GPU}{region="eu"} cannot have price "${eu.name}": product "GPU hours" has no pricing group key "region"`,
    ]);
    const [currency] = await differencesOf(world.destination, bookFor([ANY], { currency: 'EUR' }));
    expect(currency).toContain('the rate card is priced in USD');
    const volume = priceFor(GPU, {}, tiered('volume', [[10, 3]], 1));
    const [tiers] = await differencesOf(world.destination, bookFor([volume]));
    expect(tiers).toContain('Metronome has no volume tiers');
    const long = priceFor(GPU, {}, flatCharge('123456.123456789012'));
    const [digits] = await differencesOf(world.destination, bookFor([long]));
    expect(digits).toContain('15 digits');
  });

  test('are none of a rate card that is not there', async () => {
    const books = [{ book: bookFor([ANY], { name: 'gold' }), isDefault: false }];
    const query = { books, metrics: new Set([GPU]), day: TODAY };
    expect(await world.destination.prices.compare(query, NEVER)).toMatchObject({
      kind: 'compared',
      books: [{ book: 'gold', plan: 'gold', exists: false }],
    });
  });
});

describe('a rate as Metronome shows it', () => {
  type Shown = Pick<
    Awaited<ReturnType<Metronome['v1']['contracts']['rateCards']['rates']['list']>>['data'][number],
    'entitled' | 'rate'
  >;
  const USD = { id: 'usd', name: 'USD (cents)' };
  const EUR = { id: 'eur', name: 'EUR' };
  const shown = (rate: Shown['rate'], entitled = true): Shown => ({ entitled, rate });

  test.each<readonly [Shown, string, string]>([
    [shown({ rate_type: 'FLAT', price: 250, credit_type: USD }), 'USD', '2.5'],
    [shown({ rate_type: 'FLAT', price: 1e-7, credit_type: USD }), 'USD', '0.000000001'],
    [shown({ rate_type: 'FLAT', price: 2.5, credit_type: EUR }), 'EUR', '2.5'],
    [
      shown({
        rate_type: 'TIERED',
        tiers: [{ size: 10, price: 300 }, { size: 5.5, price: 200 }, { price: 100 }],
        credit_type: USD,
      }),
      'USD',
      '3 up to 10, 2 up to 15.5, 1 beyond',
    ],
  ])('%j costs %s %s', (rate, currency, text) => {
    const charge = readCharge({ ...rate, rate: { ...rate.rate } }, { currency });
    expect(typeof charge === 'string' ? charge : chargeText(charge)).toBe(text);
  });

  test.each<Shown>([
    shown({ rate_type: 'FLAT', price: 250, credit_type: USD }, false),
    shown({ rate_type: 'FLAT', price: 250, credit_type: { id: 'c', name: 'credits' } }),
    shown({ rate_type: 'PERCENTAGE', price: 0.1, credit_type: USD }),
    shown({ rate_type: 'TIERED', tiers: [{ size: 10, price: 300 }], credit_type: USD }),
  ])('%j is of a kind that no book has', (rate) => {
    expect(readCharge({ ...rate, rate: { ...rate.rate } }, { currency: 'USD' })).toBeTypeOf(
      'string',
    );
  });
});
