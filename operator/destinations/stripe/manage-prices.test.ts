import { afterEach, describe, expect, test } from 'vitest';
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
import {
  createStripeWorld,
  gpuEvent,
  NEVER,
  settle,
  type StripeWorld,
} from './testing/stripe-world.ts';

const DAY_MS = 86_400_000;
const TOMORROW = '2026-11-22';
const LB = priceFor('tenant_lb_hours', {}, flatCharge('0.02'));
const BOOK = bookFor([H100, ANY]);
const DEARER = bookFor([thenFrom(H100, TOMORROW, flatCharge('3')), ANY]);

let world: StripeWorld;
afterEach(() => world.close());

const active = () =>
  [...world.stripe.state.prices.values()]
    .filter((price) => price.active)
    .map(({ unit_amount_decimal, metadata }) => [unit_amount_decimal, metadata['vbilling_from']]);
/** The amounts of the prices that subscriptions have. */
const charged = () =>
  [...world.stripe.state.subscriptions.values()]
    .filter(({ status }) => status === 'active')
    .flatMap(({ items }) => items.filter(({ to }) => to === undefined))
    .map(({ price }) => world.stripe.state.prices.get(price))
    .map((price) => price?.unit_amount_decimal);
const writes = () => world.stripe.requests.filter(({ method }) => method === 'POST').length;

describe('prices that are kept at Stripe', () => {
  test('are made once, and are as the book says from then on', async () => {
    world = await createStripeWorld();
    await world.ready();
    expect((await manage(world.destination, BOOK)).failures).toStrictEqual([]);
    expect(active()).toStrictEqual([
      ['240', '2026-01-01'],
      ['50', '2026-01-01'],
    ]);
    expect(await differencesOf(world.destination, BOOK)).toStrictEqual([]);
    const before = writes();
    expect((await manage(world.restart(), BOOK)).changes).toStrictEqual([]);
    expect(writes()).toBe(before);
  });

  test('are there before they hold, and the old ones go afterwards', async () => {
    world = await createStripeWorld();
    await world.ready();
    await manage(world.destination, BOOK);
    await manage(world.destination, DEARER);
    expect(active()).toContainEqual(['300', TOMORROW]);
    expect(await differencesOf(world.destination, DEARER)).toStrictEqual([]);
    expect(await differencesOf(world.destination, DEARER, TOMORROW)).toStrictEqual([]);
    world.time.now += DAY_MS;
    const { changes } = await manage(world.destination, DEARER, TOMORROW);
    expect(changes).toHaveLength(1);
    expect(active()).toStrictEqual([
      ['50', '2026-01-01'],
      ['300', TOMORROW],
    ]);
    expect(await differencesOf(world.destination, DEARER, TOMORROW)).toStrictEqual([]);
  });

  test('charge what a tenant uses from their first moment on', async () => {
    world = await createStripeWorld({}, { autoSubscribe: true });
    const { destination } = world;
    const tenant = testTenant();
    await world.ready();
    await manage(destination, DEARER);
    world.time.now += 400_000;
    await settle(destination, tenant);
    expect(new Set(charged())).toStrictEqual(new Set(['240', '50']));
    // Five minutes past midnight nothing of the new day has been sent yet.
    world.time.now = Date.parse(TOMORROW) + 300_000;
    const [outcome] = await destination.send([gpuEvent({ sku: 'h100' })], NEVER);
    expect(outcome?.kind).toBe('provision');
    const asked = await destination.provision(tenant, NEVER);
    expect(asked).toMatchObject({ kind: 'drain', before: Date.parse(TOMORROW) });
    await settle(destination, tenant);
    expect(new Set(charged())).toStrictEqual(new Set(['300', '50']));
  });

  test('charge nothing from the moment on that a book withdraws them', async () => {
    world = await createStripeWorld({}, { autoSubscribe: true });
    const { destination } = world;
    const tenant = testTenant();
    const withdrawn = bookFor([thenFrom(H100, TOMORROW), LB]);
    await world.ready();
    await manage(destination, withdrawn);
    world.time.now += 400_000;
    await settle(destination, tenant);
    expect(new Set(charged())).toStrictEqual(new Set(['240', '2']));
    expect(await differencesOf(destination, withdrawn, TOMORROW)).toStrictEqual([]);
    world.time.now = Date.parse(TOMORROW) + 300_000;
    const [outcome] = await destination.send([gpuEvent({ sku: 'h100' })], NEVER);
    expect(outcome?.kind).toBe('provision');
    const asked = await destination.provision(tenant, NEVER);
    expect(asked).toMatchObject({ kind: 'drain', before: Date.parse(TOMORROW) });
    await settle(destination, tenant);
    expect(charged()).toStrictEqual(['2']);
    await manage(destination, withdrawn, TOMORROW);
    expect(active()).toStrictEqual([['2', '2026-01-01']]);
  });

  test('go on where a book takes its withdrawal back', async () => {
    world = await createStripeWorld({}, { autoSubscribe: true });
    const tenant = testTenant();
    const withdrawn = bookFor([thenFrom(H100, TOMORROW), LB]);
    await world.ready();
    await manage(world.destination, withdrawn);
    await manage(world.destination, bookFor([H100, LB]));
    world.time.now = Date.parse(TOMORROW) + 300_000;
    await settle(world.destination, tenant);
    expect(new Set(charged())).toStrictEqual(new Set(['240', '2']));
    expect((await manage(world.destination, bookFor([H100, LB]), TOMORROW)).changes).toStrictEqual(
      [],
    );
  });

  test('leave a meter to whoever has put a price on it', async () => {
    world = await createStripeWorld();
    await world.ready();
    const id = await world.price(GPU, { amount: '70' });
    await manage(world.destination, BOOK);
    expect(world.stripe.state.prices.get(id)?.active).toBe(true);
    expect(active()).toStrictEqual([
      ['70', undefined],
      ['240', '2026-01-01'],
    ]);
    expect(await differencesOf(world.destination, BOOK)).toStrictEqual([
      `${GPU} costs 0.7 instead of 0.5 by "${ANY.name}"`,
    ]);
  });

  test('come out of the archive when a book goes back to them', async () => {
    world = await createStripeWorld();
    await world.ready();
    await manage(world.destination, BOOK);
    await manage(world.destination, DEARER);
    await manage(world.destination, BOOK);
    expect(active()).toHaveLength(2);
    await manage(world.destination, DEARER);
    expect(active()).toHaveLength(3);
    expect(world.stripe.state.prices.size).toBe(3);
  });

  test('have tiers, and end with the price', async () => {
    world = await createStripeWorld();
    await world.ready();
    const tiers = priceFor('tenant_lb_hours', {}, tiered('graduated', [[100, 3]], 1, 10));
    const withdrawn = thenFrom(H100, TODAY);
    const yen = { name: 'gold', currency: 'JPY' };
    await manage(world.destination, bookFor([tiers, H100], yen), '2026-11-20');
    expect(active()).toHaveLength(2);
    await manage(world.destination, bookFor([tiers, withdrawn], yen));
    const [price, ...others] = [...world.stripe.state.prices.values()].filter((one) => one.active);
    expect(others).toStrictEqual([]);
    expect(price).toMatchObject({
      currency: 'jpy',
      tiers: [
        { up_to: 10, unit_amount_decimal: '0' },
        { up_to: 110, unit_amount_decimal: '3' },
        { up_to: null, unit_amount_decimal: '1' },
      ],
    });
  });
});
