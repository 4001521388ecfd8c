import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { tiered } from '../../pricing/testing/price-books.ts';
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
import { createMetronomeWorld, type MetronomeWorld } from './testing/metronome-world.ts';

const NEXT = '2026-12-01';
const BOOK = bookFor([H100, ANY]);
const DEARER = bookFor([thenFrom(H100, NEXT, flatCharge('3')), ANY]);

let world: MetronomeWorld;
beforeEach(async () => {
  world = await createMetronomeWorld({ rateCard: 'standard' });
  await world.bootstrap();
});
afterEach(() => world.close());

const rates = () =>
  world.metronome.state.rates.map(({ price, starting_at, pricing_group_values, entitled }) => [
    entitled ? price : 'ended',
    starting_at.slice(0, 10),
    pricing_group_values?.['sku'],
  ]);

describe('prices that are kept at Metronome', () => {
  test('are made once with card and product, and are as the book says from then on', async () => {
    expect((await manage(world.destination, BOOK)).failures).toStrictEqual([]);
    expect(rates()).toStrictEqual([
      [240, '2026-01-01', 'h100'],
      [50, '2026-01-01', undefined],
    ]);
    expect(await differencesOf(world.destination, BOOK)).toStrictEqual([]);
    expect((await manage(world.restart(), BOOK)).changes).toStrictEqual([]);
    const { state } = world.metronome;
    expect([state.rateCards.length, state.products.length, state.rates.length]).toStrictEqual([
      1, 1, 2,
    ]);
  });

  test('begin on their day, and what was before stays', async () => {
    await manage(world.destination, BOOK);
    await manage(world.destination, DEARER);
    expect(rates()).toContainEqual([300, NEXT, 'h100']);
    expect(rates()).toHaveLength(3);
    expect(await differencesOf(world.destination, DEARER)).toStrictEqual([]);
    expect(await differencesOf(world.destination, DEARER, NEXT)).toStrictEqual([]);
    // Nobody has seen it yet: the book may still be changed.
    await manage(world.destination, BOOK);
    expect(await differencesOf(world.destination, BOOK, NEXT)).toContain(
      `${GPU}{sku="h100"} costs 3 instead of 2.4 by "${H100.name}"`,
    );
  });

  test('end with the price', async () => {
    await manage(world.destination, BOOK);
    const withdrawn = bookFor([thenFrom(H100, TODAY), ANY]);
    await manage(world.destination, withdrawn);
    // The less specific price holds from then on, and where there is none, nothing does.
    expect(rates()).toContainEqual([50, TODAY, 'h100']);
    expect(await differencesOf(world.destination, withdrawn)).toStrictEqual([]);
    expect((await manage(world.destination, withdrawn)).changes).toStrictEqual([]);
    const alone = bookFor(withdrawn.prices.slice(0, 1));
    await manage(world.destination, alone);
    expect(rates()).toContainEqual(['ended', TODAY, 'h100']);
    expect((await manage(world.destination, alone)).changes).toStrictEqual([]);
  });

  test('end with the price on the first day that they are made, on whosever card', async () => {
    const withdrawn = bookFor([thenFrom(H100, NEXT)], { name: 'theirs' });
    await world.rateCard('theirs');
    await manage(world.destination, withdrawn);
    expect(rates()).toStrictEqual([
      [240, '2026-01-01', 'h100'],
      ['ended', NEXT, 'h100'],
    ]);
    expect((await manage(world.destination, withdrawn)).changes).toStrictEqual([]);
  });

  test('only fill what is open on a card of somebody else’s', async () => {
    const card = await world.rateCard('standard');
    await manage(world.destination, bookFor([ANY]));
    await world.asOperator('/v1/contract-pricing/rate-cards/addRates', {
      rate_card_id: card,
      rates: [
        {
          product_id: world.metronome.state.products[0]?.id,
          starting_at: '2026-02-01T00:00:00Z',
          entitled: true,
          rate_type: 'FLAT',
          price: 70,
        },
      ],
    });
    const before = world.metronome.state.rates.length;
    expect((await manage(world.destination, bookFor([ANY]))).changes).toStrictEqual([]);
    expect(world.metronome.state.rates).toHaveLength(before);
    expect(await differencesOf(world.destination, bookFor([ANY]))).toStrictEqual([
      `${GPU} costs 0.7 instead of 0.5 by "${ANY.name}"`,
    ]);
  });

  test('have tiers and another currency, and say which one there is not', async () => {
    const tiers = tiered('graduated', [[100, 3]], 1.5, 10);
    const gold = bookFor([priceFor(GPU, {}, tiers)], { name: 'gold', currency: 'EUR' });
    expect((await manage(world.destination, gold)).failures).toStrictEqual([]);
    expect(world.metronome.state.rates[0]?.tiers).toStrictEqual([
      { price: 0, size: 10 },
      { price: 3, size: 100 },
      { price: 1.5 },
    ]);
    const yen = bookFor([priceFor(GPU, {}, tiers)], { name: 'yen', currency: 'JPY' });
    expect((await manage(world.destination, yen)).failures).toStrictEqual([
      'rate card "yen": the account has no currency JPY',
    ]);
  });
});
