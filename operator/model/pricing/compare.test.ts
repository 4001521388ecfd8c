import { describe, expect, test } from 'vitest';
import {
  comparePrices,
  type PriceThere,
  pricesOn,
  usagePlace,
  type WantedPrice,
} from './compare.ts';
import { bookOf, flat, priceOf } from './testing/price-books.ts';

const GPU = 'tenant_gpu_hours';
const wanted = (price: string, amount?: number): WantedPrice => ({
  place: price,
  price,
  ...(amount !== undefined && { charge: flat(amount) }),
});
const there = (place: string, charge: PriceThere['charge'], id = 'id'): PriceThere => ({
  place,
  id,
  charge,
});

describe('prices of a book compared with a billing system', () => {
  test('differ by what would have to be done', () => {
    const found = comparePrices(
      [
        wanted('new', 1),
        wanted('dearer', 2),
        wanted('over'),
        wanted('gone'),
        wanted('kept', 3),
        { ...wanted('odd', 4), impossible: 'it cannot' },
      ],
      [
        there('dearer', flat(1)),
        there('over', flat(9)),
        there('kept', flat(3)),
        there('odd', flat(7)),
        there('own', 'a fee'),
      ],
    );
    expect(found).toStrictEqual([
      { kind: 'create', price: 'new', place: 'new', wanted: flat(1) },
      {
        kind: 'change',
        price: 'dearer',
        place: 'dearer',
        id: 'id',
        wanted: flat(2),
        there: flat(1),
      },
      { kind: 'end', price: 'over', place: 'over', id: 'id', there: flat(9) },
      { kind: 'same', price: 'kept', place: 'kept', id: 'id' },
      { kind: 'impossible', price: 'odd', place: 'odd', why: 'it cannot' },
      { kind: 'foreign', place: 'own', id: 'id', there: 'a fee' },
    ]);
  });

  test('leave nothing out that is charged a second time', () => {
    const found = comparePrices(
      [wanted('a', 2)],
      [there('a', flat(1), '1'), there('a', flat(2), '2')],
    );
    expect(found).toStrictEqual([
      { kind: 'same', price: 'a', place: 'a', id: '2' },
      { kind: 'foreign', place: 'a', id: '1', there: flat(1) },
    ]);
  });

  test('take what nobody has set for no price', () => {
    const unset = { ...there('a', flat(0)), isUnset: true } as const;
    expect(comparePrices([], [unset])).toStrictEqual([]);
    expect(comparePrices([wanted('a')], [unset])).toStrictEqual([]);
    expect(comparePrices([wanted('a', 0)], [unset])[0]?.kind).toBe('same');
    expect(comparePrices([wanted('a', 2)], [unset])[0]?.kind).toBe('change');
  });

  test('are never the same as what cannot be read', () => {
    expect(comparePrices([wanted('a', 2)], [there('a', '2')])[0]?.kind).toBe('change');
  });
});

describe('the prices of a day', () => {
  const book = bookOf([
    priceOf(GPU, flat(2), {
      rates: [
        { from: '2026-01-01', charge: flat(2) },
        { from: '2026-11-21', charge: flat(3) },
        { from: '2026-12-01' },
      ],
    }),
  ]);

  test.each([
    ['2025-12-31', []],
    ['2026-11-20', [flat(2)]],
    ['2026-11-21', [flat(3)]],
    ['2026-12-01', [undefined]],
  ])('%s are those that have begun', (day, charges) => {
    expect(pricesOn(book, day).map(({ charge }) => charge)).toStrictEqual(charges);
  });
});

test('usage has one name, whatever the order of its keys and the signs in its values', () => {
  expect(usagePlace(GPU, {})).toBe(GPU);
  expect(usagePlace(GPU, { sku: 'h"1', region: 'eu' })).toBe(
    usagePlace(GPU, { region: 'eu', sku: 'h"1' }),
  );
  expect(usagePlace(GPU, { sku: 'a",region="b' })).not.toBe(
    usagePlace(GPU, { sku: 'a', region: 'b' }),
  );
});
