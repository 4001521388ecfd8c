import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { dependsOnMonth, monthCost, unitCost } from './charges.ts';
import { countedCost } from './testing/one-by-one.ts';
import { flat, smallCharges, tiered } from './testing/price-books.ts';

const UNIT = 1_000_000_000n;
/** One unit of money in the unit that costs are computed in. */
const MONEY = 10n ** 21n;

describe('the cost of a month', () => {
  test('is that of its units counted one by one, whatever the tiers', () => {
    fc.assert(
      fc.property(smallCharges, fc.bigInt({ min: 0n, max: 120n }), (charge, nanos) => {
        expect(monthCost(charge, nanos)).toBe(countedCost(charge, nanos));
      }),
    );
  });

  test('is what a price list says', () => {
    const graduated = tiered(
      'graduated',
      [
        [10, 3],
        [100, 2],
      ],
      1,
    );
    const volume = tiered(
      'volume',
      [
        [10, 3],
        [100, 2],
      ],
      1,
    );
    expect(monthCost(flat(2.5), 10n * UNIT)).toBe(25n * MONEY);
    expect(monthCost(flat(2.5, 4), 10n * UNIT)).toBe(15n * MONEY);
    expect(monthCost(graduated, 10n * UNIT)).toBe(30n * MONEY);
    expect(monthCost(graduated, 110n * UNIT)).toBe((30n + 180n + 10n) * MONEY);
    expect(monthCost(volume, 10n * UNIT)).toBe(30n * MONEY);
    expect(monthCost(volume, 11n * UNIT)).toBe(22n * MONEY);
    expect(monthCost(volume, 101n * UNIT)).toBe(101n * MONEY);
  });

  test('is not below zero when corrections take back more than a month has', () => {
    fc.assert(
      fc.property(smallCharges, fc.bigInt({ min: -50n, max: 0n }), (charge, nanos) => {
        expect(monthCost(charge, nanos)).toBe(0n);
      }),
    );
  });
});

describe('what one unit costs', () => {
  test('comes to the month when all its units are added up', () => {
    fc.assert(
      fc.property(smallCharges, fc.bigInt({ min: 1n, max: 120n }), (charge, nanos) => {
        const { numerator, denominator } = unitCost(charge, nanos);
        expect(numerator * nanos).toBe(monthCost(charge, nanos) * denominator);
        expect(denominator > 0n).toBe(true);
      }),
    );
  });

  test('is known without the month where the price is one for all', () => {
    expect(dependsOnMonth(flat(2))).toBe(false);
    expect(unitCost(flat(2), 0n)).toStrictEqual(unitCost(flat(2), 7n * UNIT));
    for (const charge of [flat(2, 1), tiered('volume', [], 1), tiered('graduated', [[1, 2]], 1)]) {
      expect(dependsOnMonth(charge)).toBe(true);
    }
  });

  test('is that of the first unit in a month of which corrections left nothing', () => {
    expect(unitCost(tiered('graduated', [[1, 3]], 1), 0n).numerator).toBe(3_000_000_000_000n);
    expect(unitCost(tiered('graduated', [[1, 3]], 1, 5), -1n).numerator).toBe(0n);
  });
});
