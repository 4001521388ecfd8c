import { afterEach, describe, expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { tiered } from '../../pricing/testing/price-books.ts';
import { testTenant } from '../testing/context.ts';
import {
  ANY,
  bookFor,
  differencesOf,
  flatCharge,
  GPU,
  H100,
  manage,
  priceFor,
  thenFrom,
  TODAY,
} from '../testing/price-books.ts';
import { createLagoWorld, LAGO_METRICS, type LagoWorld, NEVER } from './testing/lago-world.ts';

const CODE = `meterfeed-${GPU}`;
const SPOT = priceFor(GPU, { sku: 'h100', capacity_type: 'spot' }, flatCharge('1.1'));
const BOOK = bookFor([H100, SPOT, ANY]);
/** H100 becomes dearer on the day after the test's. */
const DEARER = bookFor([thenFrom(H100, '2026-11-22', flatCharge('3')), SPOT, ANY]);

let world: LagoWorld;
afterEach(() => world.close());

const writes = () => world.lago.requests.filter(({ method }) => method !== 'GET').length;
const chargeOf = (plan = 'tenant-standard', code = CODE) =>
  world.lago.state.plans.get(plan)?.charges.find((charge) => charge.code === code);
const pricesOf = (plan?: string) =>
  (chargeOf(plan)?.filters ?? []).map(({ values, properties }) => [
    Object.values(values).flat().join(),
    (properties['graduated_ranges'] as { per_unit_amount: string }[])
      .map(({ per_unit_amount }) => per_unit_amount)
      .join(),
  ]);

describe('prices that are kept at Lago', () => {
  test('are made once, and are as the book says from then on', async () => {
    world = await createLagoWorld();
    await world.ready();
    const { changes, failures } = await manage(world.destination, BOOK);
    expect(failures).toStrictEqual([]);
    expect(changes).toHaveLength(1);
    expect(pricesOf()).toStrictEqual([
      [`${H100.name}@2026-01-01`, '2.4'],
      [`${SPOT.name}@2026-01-01`, '1.1'],
      [`${ANY.name}@2026-01-01`, '0.5'],
    ]);
    expect(await differencesOf(world.destination, BOOK)).toStrictEqual([]);
    const before = writes();
    const again = { kind: 'managed', changes: [], failures: [] };
    expect(await manage(world.restart(), BOOK)).toStrictEqual(again);
    expect(writes()).toBe(before);
  });

  test('change for the usage of their own days only', async () => {
    world = await createLagoWorld();
    await world.ready();
    await manage(world.destination, BOOK);
    await manage(world.destination, DEARER);
    // It is there before it begins, and the old one stays for what was used before.
    expect(pricesOf()).toContainEqual([`${H100.name}@2026-11-22`, '3']);
    expect(pricesOf()).toContainEqual([`${H100.name}@2026-01-01`, '2.4']);
    expect(await differencesOf(world.destination, DEARER)).toStrictEqual([]);
    expect(await differencesOf(world.destination, DEARER, '2026-11-22')).toStrictEqual([]);
    expect(await differencesOf(world.destination, BOOK)).toStrictEqual([
      `${GPU}{price_tenant-standard="${H100.name}@2026-11-22"} costs 3 and is in no price of the book`,
    ]);
  });

  test('take in events by the rate that the book prices them by', async () => {
    world = await createLagoWorld();
    const books = [DEARER, bookFor([priceFor(GPU, {}, flatCharge('9'))], { name: 'other' })];
    Object.assign(world.context, { books: () => books });
    const destination = world.restart();
    await destination.bootstrap(LAGO_METRICS, NEVER);
    await destination.provision(testTenant(), NEVER);
    const event = {
      ...testEvent({ sku: 'h100' }),
      metric: GPU,
      dimensions: { capacity_type: 'on-demand' },
    };
    const outcomes = await destination.send([event], NEVER);
    expect(outcomes).toStrictEqual([{ kind: 'delivered' }]);
    const [stored] = [...world.lago.state.events.values()];
    expect(stored?.properties).toMatchObject({
      'price_tenant-standard': `${H100.name}@2026-01-01`,
      price_other: `${GPU}@2026-01-01`,
    });
  });

  test('leave a charge of somebody else’s as it is, and what it prices to it', async () => {
    world = await createLagoWorld();
    await world.ready();
    const foreign = chargeOf('tenant-standard', GPU);
    if (foreign === undefined) throw new Error('no charge');
    foreign.properties = { amount: '7' };
    const before = writes();
    expect(await manage(world.destination, BOOK)).toStrictEqual({
      kind: 'managed',
      changes: [],
      failures: [],
    });
    expect(writes()).toBe(before);
    expect(await differencesOf(world.destination, BOOK)).toContain(
      `${GPU} costs 7 instead of 0.5 by "${ANY.name}"`,
    );
  });

  test('leave a filter that somebody has added to their charge', async () => {
    world = await createLagoWorld();
    await world.ready();
    await manage(world.destination, BOOK);
    const own = chargeOf();
    if (own === undefined) throw new Error('no charge');
    const added = { values: { capacity_type: ['reserved'] }, properties: own.properties };
    own.filters = [...own.filters, added];
    await manage(world.destination, DEARER);
    expect(chargeOf()?.filters).toContainEqual(expect.objectContaining(added));
    expect(await differencesOf(world.destination, DEARER)).toStrictEqual([
      `${GPU}{capacity_type="reserved"} costs 0.5 and is in no price of the book`,
    ]);
  });

  test('make the plan of a book where there is none, and tiers from the beginning', async () => {
    world = await createLagoWorld();
    await world.ready();
    const tiers = tiered(
      'graduated',
      [
        [100, 3],
        [200.5, 2],
      ],
      1,
      10,
    );
    const gold = bookFor([priceFor(GPU, {}, tiers)], { name: 'gold', currency: 'EUR' });
    const { failures } = await manage(world.destination, gold);
    expect(failures).toStrictEqual([]);
    expect(world.lago.state.plans.get('gold')).toMatchObject({ amount_currency: 'EUR' });
    expect(chargeOf('gold')?.filters[0]?.properties).toStrictEqual({
      graduated_ranges: [
        { from_value: 0, to_value: 10, per_unit_amount: '0', flat_amount: '0' },
        { from_value: 11, to_value: 110, per_unit_amount: '3', flat_amount: '0' },
        { from_value: 111, to_value: 210.5, per_unit_amount: '2', flat_amount: '0' },
        { from_value: 211.5, to_value: null, per_unit_amount: '1', flat_amount: '0' },
      ],
    });
  });

  test('tell what a Lago cannot have, and keep the others', async () => {
    world = await createLagoWorld();
    await world.ready();
    await manage(world.destination, BOOK);
    const bulk = priceFor(GPU, { sku: 'l4' }, tiered('volume', [[10, 2]], 1));
    const book = bookFor([H100, SPOT, ANY, bulk]);
    expect((await manage(world.destination, book)).failures).toStrictEqual([]);
    expect(await differencesOf(world.destination, book)).toStrictEqual([
      `${GPU}{sku="l4"} cannot have price "${bulk.name}": the charge "${CODE}" is graduated, which Lago does not change once the plan has subscriptions`,
    ]);
  });

  test('end with the price, and stay for usage from before', async () => {
    world = await createLagoWorld();
    await world.ready();
    const without = bookFor([thenFrom(H100, TODAY), ANY]);
    await manage(world.destination, without);
    expect(pricesOf()).toStrictEqual([
      [`${H100.name}@2026-01-01`, '2.4'],
      [`${ANY.name}@2026-01-01`, '0.5'],
    ]);
    expect(await differencesOf(world.destination, without)).toStrictEqual([]);
  });

  test('are told why they cannot be made where a Lago is too old', async () => {
    world = await createLagoWorld({ legacy: true });
    await world.ready();
    const { failures, changes } = await manage(world.destination, BOOK);
    expect(changes).toStrictEqual([]);
    expect(failures.join()).toContain(CODE);
  });
});
