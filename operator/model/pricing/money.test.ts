import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { currencyDigits, moneyText, shareOut } from './money.ts';

/** One unit of money in the unit that costs are computed in. */
const MONEY = 10n ** 21n;
const UNIT_OF_ONE = { numerator: 1n, denominator: 1n };

function sum(parts: readonly bigint[]): bigint {
  return parts.reduce((all, part) => all + part, 0n);
}

describe('parts of a line', () => {
  const lines = fc.record({
    unit: fc.record({
      numerator: fc.bigInt({ min: 0n, max: 10n ** 15n }),
      denominator: fc.bigInt({ min: 1n, max: 10n ** 6n }),
    }),
    nanos: fc.array(fc.bigInt({ min: -(10n ** 9n), max: 10n ** 14n }), { maxLength: 12 }),
    digits: fc.constantFrom(0, 2, 3, 4),
  });

  test('add up to the line, which is rounded once, to the nearest minor unit', () => {
    fc.assert(
      fc.property(lines, ({ unit, nanos, digits }) => {
        const minor = 10n ** BigInt(21 - digits) * unit.denominator;
        const exact = sum(nanos) * unit.numerator;
        const off = sum(shareOut(unit, nanos, digits)) * minor - exact;
        expect((off < 0n ? -off : off) * 2n <= minor).toBe(true);
      }),
    );
  });

  test('are each within a minor unit of what they cost', () => {
    fc.assert(
      fc.property(lines, ({ unit, nanos, digits }) => {
        const minor = 10n ** BigInt(21 - digits) * unit.denominator;
        for (const [index, share] of shareOut(unit, nanos, digits).entries()) {
          const off = share * minor - (nanos[index] ?? 0n) * unit.numerator;
          expect(off > -minor && off <= minor).toBe(true);
        }
      }),
    );
  });

  test('come to the same line however finely it is divided', () => {
    fc.assert(
      fc.property(lines, ({ unit, nanos, digits }) => {
        expect(sum(shareOut(unit, nanos, digits))).toBe(sum(shareOut(unit, [sum(nanos)], digits)));
      }),
    );
  });

  test('a half is rounded away from zero, on invoices and on credits', () => {
    expect(shareOut(UNIT_OF_ONE, [MONEY / 200n], 2)).toStrictEqual([1n]);
    expect(shareOut(UNIT_OF_ONE, [-MONEY / 200n], 2)).toStrictEqual([-1n]);
    expect(shareOut(UNIT_OF_ONE, [MONEY / 200n - 1n], 2)).toStrictEqual([0n]);
  });

  test('three thirds of a cent are a cent, and the first has it', () => {
    const third = { numerator: MONEY, denominator: 300n };
    expect(shareOut(third, [1n, 1n, 1n], 2)).toStrictEqual([1n, 0n, 0n]);
  });
});

describe('an amount of money', () => {
  test.each([
    [1230n, 2, '12.30'],
    [5n, 2, '0.05'],
    [-5n, 2, '-0.05'],
    [0n, 2, '0.00'],
    [1230n, 0, '1230'],
    [1n, 3, '0.001'],
    [-123_456n, 4, '-12.3456'],
  ])('%s minor units of %i digits are %s', (minor, digits, text) => {
    expect(moneyText(minor, digits)).toBe(text);
  });

  test('has the digits of ISO 4217, which Intl does not have', () => {
    const digits = ['EUR', 'USD', 'JPY', 'KWD', 'IQD', 'CLF', 'HUF', 'ALL'].map(currencyDigits);
    expect(digits).toStrictEqual([2, 2, 0, 3, 3, 4, 2, 2]);
  });

  test('is never one of gold, of which there is no cent', () => {
    expect(['XAU', 'XXX', 'XTS'].map(currencyDigits)).toStrictEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});
