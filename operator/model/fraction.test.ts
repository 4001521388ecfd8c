import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { fractionText, unitsOfFraction } from './fraction.ts';
import { gpuUnits, UNITS_PER_GPU } from './gpu-units.ts';

test('no part of an amount is lost on its way through text, whatever it is cut into', () => {
  const cut = fc.integer({ min: 1, max: 128 });
  const amounts = fc.tuple(fc.nat(1000), cut, fc.constantFrom(1, 4, 7), fc.nat(86_400_000));
  fc.assert(
    fc.property(fc.array(amounts, { maxLength: 6 }), (shares) => {
      const amount = shares.reduce(
        (sum, [count, among, cuts, ms]) => sum + gpuUnits(count, among * cuts) * BigInt(ms),
        0n,
      );
      expect(unitsOfFraction(fractionText(amount, UNITS_PER_GPU), UNITS_PER_GPU)).toBe(amount);
    }),
  );
});

test('whole amounts read as they are, others in lowest terms', () => {
  expect(fractionText(0n, UNITS_PER_GPU)).toBe('0');
  expect(fractionText(gpuUnits(8) * 60_000n, UNITS_PER_GPU)).toBe('480000');
  expect(fractionText(gpuUnits(3, 7) * 60_000n, UNITS_PER_GPU)).toBe('180000/7');
  expect(fractionText(12n, 1n)).toBe('12');
});
