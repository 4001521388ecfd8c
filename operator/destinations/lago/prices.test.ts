import { afterEach, describe, expect, test } from 'vitest';
import type { ChargeFilter } from '../../../e2e/fakes/lago/state.ts';
import { bookFor, differencesOf, flatCharge, priceFor, TODAY } from '../testing/price-books.ts';
import { tiered } from '../../model/pricing/testing/price-books.ts';
import { createLagoWorld, type LagoWorld, NEVER } from './testing/lago-world.ts';

const GPU = 'tenant_gpu_hours';
const H100 = priceFor(GPU, { sku: 'h100' }, flatCharge('2.4'));
const SPOT = priceFor(GPU, { sku: 'h100', capacity_type: 'spot' }, flatCharge('1.1'));
const ANY = priceFor(GPU, {}, flatCharge('0.5'));

let world: LagoWorld;
afterEach(() => world.close());

/** Returns the charge for GPU hours in a plan that the operator made. */
async function gpuCharge() {
  world = await createLagoWorld();
  await world.bootstrap();
  const plan = world.lago.state.plans.get('tenant-standard');
  const charge = plan?.charges.find(({ code }) => code === GPU);
  if (plan === undefined || charge === undefined) throw new Error('no charge');
  return { plan, charge, destination: world.destination };
}

const filter = (values: ChargeFilter['values'], amount: string): ChargeFilter => ({
  values,
  properties: { amount },
});

describe('prices at Lago', () => {
  test('are reported one by one where nobody has set them, and nothing is changed there', async () => {
    const { destination } = await gpuCharge();
    const writes = () => world.lago.requests.filter(({ method }) => method !== 'GET').length;
    const before = writes();
    expect(await differencesOf(destination, bookFor([H100, SPOT, ANY]))).toStrictEqual([
      `${GPU}{sku="h100"} has no price: 2.4 by "${H100.name}"`,
      `${GPU}{capacity_type="spot",sku="h100"} has no price: 1.1 by "${SPOT.name}"`,
      `${GPU} costs 0 instead of 0.5 by "${ANY.name}"`,
    ]);
    expect(writes()).toBe(before);
  });

  test('are the same when filters and the charge itself are as in the book', async () => {
    const { charge, destination } = await gpuCharge();
    charge.properties = { amount: '0.50' };
    charge.filters = [
      filter({ sku: ['h100'] }, '2.400'),
      filter({ capacity_type: ['spot'], sku: ['h100'] }, '1.1'),
    ];
    expect(await differencesOf(destination, bookFor([H100, SPOT, ANY]))).toStrictEqual([]);
  });

  test('differ where a filter has several values, or is for nobody’s price', async () => {
    const { charge, destination } = await gpuCharge();
    charge.filters = [
      filter({ sku: ['h100', 'a100'] }, '2.4'),
      filter({ region: ['__ALL_FILTER_VALUES__'] }, '3'),
    ];
    expect(await differencesOf(destination, bookFor([H100]))).toStrictEqual([
      `${GPU}{sku="a100"} costs 2.4 and is in no price of the book`,
      `${GPU}{region=*} costs 3 and is in no price of the book`,
    ]);
  });

  test('are still to end where the book has withdrawn one', async () => {
    const { charge, destination } = await gpuCharge();
    charge.filters = [filter({ sku: ['h100'] }, '2.4')];
    const withdrawn = { ...H100, rates: [...H100.rates, { from: '2026-12-01' }] };
    expect(await differencesOf(destination, bookFor([withdrawn]))).toStrictEqual([]);
    expect(await differencesOf(destination, bookFor([withdrawn]), '2026-12-01')).toStrictEqual([
      `${GPU}{sku="h100"} costs 2.4 and "${H100.name}" is withdrawn`,
    ]);
  });

  test('with tiers are read as in the book', async () => {
    const { charge, destination } = await gpuCharge();
    const ranges = [
      { from_value: 0, to_value: 100, per_unit_amount: '0', flat_amount: '0' },
      { from_value: 101, to_value: 1100, per_unit_amount: '0.08', flat_amount: '0' },
      { from_value: 1101, to_value: null, per_unit_amount: '0.05', flat_amount: '0' },
    ];
    Object.assign(charge, { charge_model: 'graduated', properties: { graduated_ranges: ranges } });
    const price = priceFor(GPU, {}, tiered('graduated', [[1000, 0.08]], 0.05, 100));
    expect(await differencesOf(destination, bookFor([price]))).toStrictEqual([]);

    ranges[1] = {
      ...(ranges[1] ?? { from_value: 0, to_value: 0, per_unit_amount: '' }),
      flat_amount: '5',
    };
    const [fee] = await differencesOf(destination, bookFor([price]));
    expect(fee).toMatch(
      /^tenant_gpu_hours costs graduated \{.*"flat_amount":"5".* instead of 0\.08/,
    );

    const volume = [
      { from_value: 0, to_value: 10, per_unit_amount: '3', flat_amount: '0' },
      { from_value: 11, to_value: null, per_unit_amount: '1', flat_amount: '0' },
    ];
    Object.assign(charge, { charge_model: 'volume', properties: { volume_ranges: volume } });
    const all = priceFor(GPU, {}, tiered('volume', [[10, 3]], 1));
    expect(await differencesOf(destination, bookFor([all]))).toStrictEqual([]);
  });

  test.each([
    ['in advance', { pay_in_advance: true }],
    ['prorated', { prorated: true }],
    ['with a minimum', { min_amount_cents: 500 }],
    ['in the pricing unit tokens', { applied_pricing_unit: { code: 'tokens' } }],
  ])('are never the same when they are charged %s', async (stated, change) => {
    const { charge, destination } = await gpuCharge();
    Object.assign(charge, { properties: { amount: '0.5' }, ...change });
    const [difference] = await differencesOf(destination, bookFor([ANY]));
    expect(difference).toContain(stated);
  });

  test('are charged twice by a second charge of the metric', async () => {
    const { plan, charge, destination } = await gpuCharge();
    charge.properties = { amount: '0.5' };
    plan.charges = [
      ...plan.charges,
      { ...charge, lago_id: 'second', code: 'again', properties: { amount: '0.5' }, filters: [] },
    ];
    expect(await differencesOf(destination, bookFor([ANY]))).toStrictEqual([
      `${GPU} by charge "again" costs 0.5 and is in no price of the book`,
    ]);
  });

  test.each([
    ['of another currency', bookFor([ANY], { currency: 'EUR' }), 'the plan is priced in USD'],
    [
      'with something included beside volume tiers',
      bookFor([priceFor(GPU, {}, tiered('volume', [[10, 3]], 1, 5))]),
      'no included quantity beside volume tiers',
    ],
    [
      'with volume tiers of half units',
      bookFor([priceFor(GPU, {}, tiered('volume', [[0.5, 3]], 1))]),
      'end at whole units',
    ],
  ])('cannot be those %s', async (_, book, why) => {
    const { destination } = await gpuCharge();
    const [difference, ...others] = await differencesOf(destination, book);
    expect(difference).toContain(why);
    expect(others).toStrictEqual([]);
  });

  test('are none of a plan that is not there', async () => {
    const { destination } = await gpuCharge();
    const books = [{ book: bookFor([ANY], { name: 'gold' }), isDefault: false }];
    const query = { books, metrics: new Set([GPU]), day: TODAY };
    const differences = [{ kind: 'create', price: ANY.name, place: GPU }];
    expect(await destination.prices.compare(query, NEVER)).toMatchObject({
      kind: 'compared',
      books: [{ book: 'gold', plan: 'gold', exists: false, differences }],
    });
  });

  test('are not known while Lago does not answer', async () => {
    const { destination } = await gpuCharge();
    const books = [{ book: bookFor([ANY]), isDefault: true }];
    await world.lago.close();
    const query = { books, metrics: new Set([GPU]), day: TODAY };
    expect(await destination.prices.compare(query, NEVER)).toMatchObject({ kind: 'failed' });
  });
});
