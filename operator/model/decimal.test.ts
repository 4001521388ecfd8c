import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decimalFromNanos,
  divideHalfUp,
  nanosFromDecimal,
  parseDecimal,
  parseSigned,
  roundedProduct,
  roundToDecimal,
  roundToSigned,
  scaleToDecimal,
  signedFromNanos,
} from './decimal.ts';

const nanos = fc.bigInt({ min: 0n, max: 10n ** 27n });

describe('a quantity as decimal text', () => {
  test('comes back to the same count of nano-units', () => {
    fc.assert(fc.property(nanos, (n) => nanosFromDecimal(decimalFromNanos(n)) === n));
  });

  test('comes back with its sign, where a correction takes something back', () => {
    const signed = fc.bigInt({ min: -(10n ** 27n), max: 10n ** 27n });
    fc.assert(
      fc.property(signed, (n) => {
        const text = signedFromNanos(n);
        expect([nanosFromDecimal(text), parseSigned(text)]).toStrictEqual([n, text]);
      }),
    );
    expect(['-0', '--1', '-', '-1e3'].map(parseSigned)).toStrictEqual([
      '0',
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('is plain: no exponent, no sign, no trailing zero, at most nine fraction digits', () => {
    fc.assert(
      fc.property(nanos, (n) => {
        expect(decimalFromNanos(n)).toMatch(/^(0|[1-9]\d*)(\.\d{0,8}[1-9])?$/);
      }),
    );
  });

  test('has one spelling: what is parsed is canonical, and parsing that changes nothing', () => {
    expect(parseDecimal('1.500')).toBe('1.5');
    fc.assert(fc.property(nanos, (n) => parseDecimal(decimalFromNanos(n)) === decimalFromNanos(n)));
  });

  test.each(['', '-1', '+1', '1e3', '01', '.5', '5.', '1.0000000001', ' 1', '1\n', 'NaN', '٣'])(
    'refuses %j',
    (text) => {
      expect(parseDecimal(text)).toBeUndefined();
    },
  );

  test('refuses a count below zero with a text that names it', () => {
    expect(() => decimalFromNanos(-1n)).toThrow('quantity: below zero: "-1n"');
  });
});

describe('a number made decimal', () => {
  test.each([
    [0.1, '0.1'],
    [-0, '0'],
    [1e-9, '0.000000001'],
    [5e-10, '0.000000001'],
    [4.9e-10, '0'],
    [5e-324, '0'],
    [0.1234567885, '0.123456789'],
    [1e15, '1000000000000000'],
    [1e21, '1000000000000000000000'],
    [123456789.123456, '123456789.123456'],
  ])('%d is %s', (value, text) => {
    expect(roundToDecimal(String(value))).toBe(text);
  });

  test.each([Number.NaN, Infinity, -Infinity, -1, -1e-12])('%d is refused', (value) => {
    expect(roundToDecimal(String(value))).toBeUndefined();
  });

  test('is the number itself wherever a double holds all digits', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 999_999_999_999_999 }), (n) => {
        expect(roundToDecimal(String(n / 1000))).toBe(decimalFromNanos(BigInt(n) * 1_000_000n));
      }),
    );
  });

  test('keeps the digits of a text that a double would lose', () => {
    expect(roundToDecimal('999999999999999.123456789')).toBe('999999999999999.123456789');
    expect(roundToDecimal('9007199254740993')).toBe('9007199254740993');
    expect(roundToDecimal('0.12345678849999999999')).toBe('0.123456788');
  });

  test('is settled at once for texts made to be expensive', () => {
    expect(roundToDecimal('1e999999999')).toBeUndefined();
    expect(roundToDecimal('1e-999999999')).toBe('0');
    expect(roundToDecimal('0e999999999')).toBe('0');
    expect(roundToDecimal('9'.repeat(10_000_000))).toBeUndefined();
  });
});

describe('a scaled number', () => {
  test.each([
    ['53687091200', 1n, 2n ** 30n, '50'],
    ['37.333333333333336', 60_000n, 3_600_000n, '0.622222222'],
    ['1.5e+09', 1n, 3n, '500000000'],
    ['1e-400', 7n, 1n, '0'],
    ['-1', 1n, 1n, undefined],
    ['NaN', 1n, 1n, undefined],
    ['+Inf', 1n, 1n, undefined],
  ])('%s × %d ÷ %d', (text, numerator, denominator, expected) => {
    expect(scaleToDecimal(text, numerator, denominator)).toBe(expected);
  });

  test('is rounded once, and not before it is scaled', () => {
    const double = fc.double({ min: 0, max: 1e15, noNaN: true });
    fc.assert(
      fc.property(double, fc.integer({ min: 1, max: 10 ** 9 }), (value, divisor) => {
        const exact = scaleToDecimal(String(value), 1n, BigInt(divisor)) ?? '';
        expect(Math.abs(Number(exact) - value / divisor)).toBeLessThanOrEqual(
          5e-10 + (value / divisor) * 1e-15,
        );
      }),
    );
  });
});

describe('division', () => {
  test('rounds half up, never more than half a unit away', () => {
    const denominator = fc.bigInt({ min: 1n, max: 10n ** 18n });
    fc.assert(
      fc.property(nanos, denominator, (numerator, divisor) => {
        const error = 2n * (divideHalfUp(numerator, divisor) * divisor - numerator);
        return error > -divisor && error <= divisor;
      }),
    );
    expect(divideHalfUp(1n, 2n)).toBe(1n);
    expect(divideHalfUp(4n, 3n)).toBe(1n);
  });
});

describe('an amount of money', () => {
  test('is a price times a quantity, rounded once, on either side of zero', () => {
    expect(roundedProduct('4', '2', 2)).toBe('8.00');
    expect(roundedProduct('0.333333333', '0.125', 2)).toBe('0.04');
    expect(roundedProduct('-1.5', '0.01', 2)).toBe('-0.02');
    expect(roundedProduct('-0.1', '0.01', 2)).toBe('0.00');
    expect(roundedProduct('1000.5', '3', 0)).toBe('3002');
    expect(roundedProduct('1e3', '3', 0)).toBeUndefined();
  });

  test('is off by half of its last digit at the most, and as far with the other sign', () => {
    const digits = fc.bigInt({ min: -(10n ** 15n), max: 10n ** 15n });
    fc.assert(
      fc.property(digits, digits, (a, b) => {
        const product = roundedProduct(signedFromNanos(a), signedFromNanos(b), 2) ?? '';
        const hundredths = BigInt(product.replace('.', ''));
        const exact = a * b;
        const error = exact - hundredths * 10n ** 16n;
        expect((error < 0n ? -error : error) * 2n <= 10n ** 16n).toBe(true);
        const other = roundedProduct(signedFromNanos(-a), signedFromNanos(b), 2) ?? '';
        expect(BigInt(other.replace('.', ''))).toBe(-hundredths);
      }),
    );
  });

  test('is read from doubles with its sign', () => {
    expect(['-0.5', '-0', '1e-3', '-1e400', 'NaN'].map(roundToSigned)).toStrictEqual([
      '-0.5',
      '0',
      '0.001',
      undefined,
      undefined,
    ]);
  });
});
