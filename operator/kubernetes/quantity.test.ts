import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NANO, parseQuantity } from './quantity.ts';

const unit = (n: bigint): bigint => n * NANO;

describe('quantity', () => {
  test.each<[unknown, bigint, string]>([
    ['0', 0n, 'zero'],
    ['2', unit(2n), 'plain'],
    ['250m', 250_000_000n, 'millicores'],
    ['0.1', 100_000_000n, 'the same as 100m'],
    ['100m', 100_000_000n, 'the same as 0.1'],
    ['123456789n', 123_456_789n, 'nanocores of the metrics API'],
    ['123457u', 123_457_000n, 'microcores'],
    ['128m', 128_000_000n, 'a memory typo seen in the wild: 0.128 bytes'],
    ['128974848000m', unit(128_974_848n), 'bytes in milli'],
    ['1k', unit(1_000n), 'small k'],
    ['1M', unit(10n ** 6n), 'mega'],
    ['1G', unit(10n ** 9n), 'giga'],
    ['1T', unit(10n ** 12n), 'tera'],
    ['2P', unit(2n * 10n ** 15n), 'peta'],
    ['1E', unit(10n ** 18n), 'E alone is exa'],
    ['1E3', unit(1_000n), 'E before digits is an exponent'],
    ['1e3', unit(1_000n), 'small e'],
    ['1E+3', unit(1_000n), 'signed exponent'],
    ['1e-3', 1_000_000n, 'negative exponent'],
    ['1.5e1', unit(15n), 'fraction and exponent'],
    ['1Ki', unit(1_024n), 'kibi'],
    ['1Mi', unit(2n ** 20n), 'mebi'],
    ['1Gi', unit(2n ** 30n), 'gibi'],
    ['1Ti', unit(2n ** 40n), 'tebi'],
    ['1Pi', unit(2n ** 50n), 'pebi'],
    ['1Ei', unit(2n ** 60n), 'Ei is not an exponent'],
    ['2113462328Ki', unit(2_113_462_328n * 1_024n), 'as nodes report memory'],
    ['.5', 500_000_000n, 'no digit before the point'],
    ['5.', unit(5n), 'no digit after the point'],
    ['+5', unit(5n), 'plus sign'],
    ['-1', unit(-1n), 'minus sign parses'],
    ['0.5Gi', unit(2n ** 29n), 'half a gibi'],
    ['1.5Ti', unit(3n * 2n ** 39n), 'one and a half tebi'],
    ['100.035Ki', 102_435_840_000_000n, 'exact, not through a double'],
    ['00012', unit(12n), 'leading zeros'],
    ['0.5n', 1n, 'below nano is rounded up'],
    ['1.1n', 2n, 'below nano is rounded up'],
    ['-0.5n', -1n, 'and away from zero'],
    ['1e-30', 1n, 'however small'],
    ['0e-30', 0n, 'zero stays zero'],
    ['16Ei', (2n ** 63n - 1n) * NANO, 'binary quantities are capped'],
    ['10E', unit(10n ** 19n), 'decimal ones are not'],
    [2, unit(2n), 'JSON number'],
    [0.25, 250_000_000n, 'JSON fraction'],
    [1e21, unit(10n ** 21n), 'JSON number in exponent form'],
    [1e-7, 100n, 'small JSON number'],
  ])('%j', (input, nano) => {
    expect(parseQuantity(input)).toEqual({ kind: 'quantity', nano });
  });

  test.each<[unknown, string]>([
    ['', 'empty'],
    ['.', 'no digits'],
    ['+', 'only a sign'],
    ['m', 'only a suffix'],
    ['1K', 'K is not k'],
    ['1ki', 'ki is not Ki'],
    ['1mi', 'mi is not Mi'],
    ['1KB', 'no such suffix'],
    ['1Gib', 'no such suffix'],
    ['1e', 'an exponent without digits'],
    ['1e1.5', 'a broken exponent'],
    ['1e3m', 'exponent and suffix'],
    [' 1', 'a space'],
    ['1 ', 'a space'],
    ['1 Gi', 'a space'],
    ['1.2.3', 'two points'],
    ['--1', 'two signs'],
    ['0x10', 'hexadecimal'],
    ['1_000', 'grouping'],
    ['1,5', 'a comma'],
    ['１', 'a digit that is not ASCII'],
    ['1\n', 'a line break'],
    ['1toString', 'a word'],
    ['1e999999999', 'an exponent that would fill the memory'],
    ['9'.repeat(65), 'too long'],
    [Number.NaN, 'not a number'],
    [Number.POSITIVE_INFINITY, 'infinite'],
    [null, 'null'],
    [undefined, 'absent'],
    [true, 'a boolean'],
    [1n, 'a bigint'],
  ])('%s is refused, and quoted: %s', (input) => {
    const quoted = JSON.stringify(
      (typeof input === 'string' ? input : inspect(input)).slice(0, 64),
    );
    expect(parseQuantity(input)).toEqual({
      kind: 'invalid',
      error: expect.stringContaining(quoted),
    });
  });

  test('every whole number of nano-units comes back exactly, in each way of writing it', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), (nano) => {
        const complete = nano / NANO;
        const fraction = String(nano % NANO).padStart(9, '0');
        const expected = { kind: 'quantity', nano };
        expect(parseQuantity(`${nano}n`)).toEqual(expected);
        expect(parseQuantity(`${complete}.${fraction}`)).toEqual(expected);
        expect(parseQuantity(`${nano}e-9`)).toEqual(expected);
        expect(parseQuantity(`-${nano}n`)).toEqual({ kind: 'quantity', nano: -nano });
      }),
    );
  });

  test('a binary suffix multiplies by its power of two, rounded up by less than a nano-unit', () => {
    const suffix = fc.constantFrom(['Ki', 10n], ['Mi', 20n], ['Gi', 30n]) as fc.Arbitrary<
      [string, bigint]
    >;
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 10n ** 6n }),
        fc.bigInt({ min: 0n, max: 10n ** 12n - 1n }),
        suffix,
        (complete, pico, [name, power]) => {
          const text = `${complete}.${String(pico).padStart(12, '0')}${name}`;
          const outcome = parseQuantity(text);
          if (outcome.kind !== 'quantity') throw new Error(outcome.error);
          const exactPico = (complete * 10n ** 12n + pico) << power;
          const error = outcome.nano * 1_000n - exactPico;
          expect(error >= 0n && error < 1_000n).toBe(true);
        },
      ),
    );
  });
});
test.each([
  [{ 1: 2 }, '{…}'],
  [['1'], '[…]'],
])('%j is refused, and costs no time to be written out', (input, quoted) => {
  expect(parseQuantity(input)).toMatchObject({
    kind: 'invalid',
    error: expect.stringContaining(quoted),
  });
});
