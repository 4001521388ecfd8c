import { Stripe } from 'stripe';
import { afterEach, describe, expect, test } from 'vitest';
import type { PriceBook } from '../../model/price-book.ts';
import { chargeText } from '../../model/pricing/amount.ts';
import { tiered } from '../../model/pricing/testing/price-books.ts';
import { bookFor, differencesOf, flatCharge, priceFor, TODAY } from '../testing/price-books.ts';
import { wantedAtMeters } from './book-prices.ts';
import { readStripeCharge } from './tagged-prices.ts';
import { createStripeWorld, NEVER, type StripeWorld } from './testing/stripe-world.ts';

const GPU = 'tenant_gpu_hours';
const H100 = priceFor(GPU, { sku: 'NVIDIA-H100' }, flatCharge('2.4'));
const ANY = priceFor(GPU, {}, flatCharge('0.5'));
const H100_METER = `${GPU}__nvidia_h100`;

let world: StripeWorld;
afterEach(() => world.close());

/** Returns a Stripe with the operator's meters, and further ones. */
async function withMeters(...names: readonly string[]): Promise<StripeWorld> {
  world = await createStripeWorld();
  await world.ready();
  const sdk = new Stripe('sk_test_key', {
    host: '127.0.0.1',
    port: new URL(world.stripe.url).port,
    protocol: 'http',
  });
  for (const event_name of names) {
    await sdk.billing.meters.create({
      event_name,
      display_name: event_name,
      default_aggregation: { formula: 'sum' },
    });
  }
  return world;
}

describe('prices at Stripe', () => {
  test('are reported for each meter where nobody has set them, and nothing is changed there', async () => {
    const { destination, stripe } = await withMeters(`${GPU}__a100`);
    const writes = () => stripe.requests.filter(({ method }) => method !== 'GET').length;
    const before = writes();
    expect(await differencesOf(destination, bookFor([H100, ANY]))).toStrictEqual([
      `${H100_METER} has no price: 2.4 by "${H100.name}"`,
      `${GPU} has no price: 0.5 by "${ANY.name}"`,
      `${GPU}__a100 has no price: 0.5 by "${ANY.name}"`,
    ]);
    expect(writes()).toBe(before);
  });

  test('are the same when each meter has what its usage costs', async () => {
    const { destination, price } = await withMeters(H100_METER);
    await price(GPU, { amount: '50.00' });
    await price(H100_METER, { amount: '240' });
    expect(await differencesOf(destination, bookFor([H100, ANY]))).toStrictEqual([]);
    expect(await differencesOf(destination, bookFor([H100]))).toStrictEqual([
      `${GPU} costs 0.5 and is in no price of the book`,
    ]);
  });

  test('of other plans, of meters of no metric and of an earlier split are none of ours', async () => {
    const { destination, price } = await withMeters('seats', `${GPU}__a__b__c`);
    await price(GPU, { amount: '50' });
    await price(GPU, { amount: '70', plan: 'gold' });
    await price('seats', { amount: '1' });
    await price(`${GPU}__a__b__c`, { amount: '1' });
    expect(await differencesOf(destination, bookFor([ANY]))).toStrictEqual([]);
  });

  test('differ by what they cost, and by a second one of a meter', async () => {
    const { destination, price, time } = await withMeters();
    await price(GPU, { amount: '60' });
    expect(await differencesOf(destination, bookFor([ANY]))).toStrictEqual([
      `${GPU} costs 0.6 instead of 0.5 by "${ANY.name}"`,
    ]);
    time.now += 1000;
    await price(GPU, { amount: '50' });
    expect(await differencesOf(destination, bookFor([ANY]))).toStrictEqual([
      `${GPU} costs 0.6 and is in no price of the book`,
    ]);
  });

  test('are those of the book’s currency, in its smallest unit', async () => {
    const { destination, price } = await withMeters();
    await price(GPU, { amount: '50', currency: 'jpy' });
    const yen = (amount: string): PriceBook =>
      bookFor([priceFor(GPU, {}, flatCharge(amount))], { currency: 'JPY' });
    expect(await differencesOf(destination, yen('50'))).toStrictEqual([]);
    expect(await differencesOf(destination, bookFor([ANY]))).toStrictEqual([
      `${GPU} costs an amount in JPY instead of 0.5 by "${ANY.name}"`,
    ]);
  });

  test('are listed once, however many books there are', async () => {
    const { destination, count } = await withMeters();
    const names = ['gold', 'silver', 'bronze'];
    const books = names.map((name) => ({ book: bookFor([ANY], { name }), isDefault: false }));
    const before = count('GET', '/v1/prices');
    const query = { books, metrics: new Set([GPU]), day: TODAY };
    expect(await destination.prices.compare(query, NEVER)).toMatchObject({
      kind: 'compared',
      books: names.map((plan) => ({ plan, exists: false })),
    });
    expect(count('GET', '/v1/prices') - before).toBe(1);
  });

  test('cannot depend on what meters are not split by', async () => {
    const { destination } = await withMeters();
    const eu = priceFor(GPU, { region: 'eu' }, flatCharge('1'));
    expect(await differencesOf(destination, bookFor([eu]))).toStrictEqual([
      `${GPU}{region="eu"} cannot have price "${eu.name}": meters are not split by region: add it to splitMetersBy`,
    ]);
  });
});

describe('the prices of meters', () => {
  const wanted = (
    book: PriceBook,
    splitBy: readonly string[],
    meters: readonly string[],
  ): Readonly<Record<string, string>> =>
    Object.fromEntries(
      wantedAtMeters(book, '2026-11-21', { splitBy, metersOf: () => meters }).map(
        ({ place, charge, impossible }) => [
          place,
          impossible ?? (charge ? chargeText(charge) : 'none'),
        ],
      ),
    );

  test('are the most specific for what their names say', () => {
    const spot = priceFor(GPU, { sku: 'NVIDIA-H100', capacity_type: 'spot' }, flatCharge('1.1'));
    const meters = [
      GPU,
      `${GPU}__spot`,
      H100_METER,
      `${H100_METER}__spot`,
      `${H100_METER}__on_demand`,
    ];
    expect(wanted(bookFor([H100, spot, ANY]), ['sku', 'capacity_type'], meters)).toStrictEqual({
      [H100_METER]: '2.4',
      [`${H100_METER}__spot`]: '1.1',
      [GPU]: '0.5',
      [`${GPU}__spot`]: '0.5',
      [`${H100_METER}__on_demand`]: '2.4',
    });
  });

  test('are not guessed where a name may be read in two ways', () => {
    const eu = priceFor(GPU, { region: 'eu' }, flatCharge('1'));
    const sku = priceFor(GPU, { sku: 'eu' }, flatCharge('2'));
    const { [`${GPU}__eu`]: reported } = wanted(bookFor([sku, eu]), ['sku', 'region'], []);
    expect(reported).toContain('does not show');
    const twins = ['a-1', 'a.1'].map((value) => priceFor(GPU, { sku: value }, flatCharge('1')));
    expect(wanted(bookFor(twins), ['sku'], [])[`${GPU}__a_1`]).toContain('does not show');
  });

  test('of one that is withdrawn are those that hold without it', () => {
    const gone = {
      ...H100,
      rates: [{ from: '2026-01-01', charge: flatCharge('1') }, { from: '2026-11-01' }],
    };
    expect(wanted(bookFor([gone, ANY]), ['sku'], [])).toStrictEqual({
      [H100_METER]: '0.5',
      [GPU]: '0.5',
    });
    expect(wanted(bookFor([gone]), ['sku'], [])).toStrictEqual({ [H100_METER]: 'none' });
  });

  test('cannot count tiers together, nor end them within a unit', () => {
    const tiers = priceFor(GPU, {}, tiered('graduated', [[10, 3]], 1));
    expect(wanted(bookFor([tiers]), ['sku'], [GPU])[GPU]).toBe('3 up to 10, 1 beyond');
    expect(wanted(bookFor([tiers]), ['sku'], [GPU, H100_METER])[GPU]).toContain(
      'of 2 meters by itself',
    );
    const half = priceFor(GPU, {}, tiered('graduated', [[0.5, 3]], 1));
    expect(wanted(bookFor([half]), ['sku'], [GPU])[GPU]).toContain('end at whole units');
    const included = priceFor(GPU, {}, tiered('volume', [[10, 3]], 1, 5));
    expect(wanted(bookFor([included]), ['sku'], [GPU])[GPU]).toContain('no included quantity');
  });
});

describe('a price as Stripe shows it', () => {
  type Shown = Partial<Record<keyof Stripe.Price, unknown>>;
  const tier = (
    up_to: number | null,
    unit_amount_decimal: string,
    flat_amount_decimal: string | null = null,
  ) => ({ up_to, unit_amount_decimal, flat_amount_decimal });
  const tiers = (...all: readonly ReturnType<typeof tier>[]): Shown => ({
    billing_scheme: 'tiered',
    tiers_mode: 'graduated',
    tiers: all,
  });

  test.each<readonly [Shown, string]>([
    [{ billing_scheme: 'per_unit', unit_amount_decimal: '0.000000000100' }, '0.000000000001'],
    [
      { billing_scheme: 'per_unit', unit_amount_decimal: '0.00000000001' },
      'unit_amount_decimal 0.00000000001',
    ],
    [{ billing_scheme: 'per_unit', unit_amount_decimal: null }, 'unit_amount_decimal none'],
    [tiers(tier(100, '0'), tier(null, '250')), '0 up to 100, 2.5 beyond'],
    [
      { ...tiers(tier(100, '300'), tier(null, '250')), tiers_mode: 'volume' },
      'all units 3 up to 100, 2.5 beyond',
    ],
  ])('%j costs %s', (price, text) => {
    const charge = readStripeCharge(price, 'USD');
    expect(typeof charge === 'string' ? charge : chargeText(charge)).toBe(text);
  });

  test.each<Shown>([
    tiers(tier(null, '250', '100')),
    { billing_scheme: 'tiered', tiers_mode: 'graduated' },
    {
      billing_scheme: 'per_unit',
      unit_amount_decimal: '1',
      transform_quantity: { divide_by: 10, round: 'up' },
    },
  ])('%j is of a kind that no book has', (price) => {
    expect(readStripeCharge(price, 'USD')).toBeTypeOf('string');
  });
});
