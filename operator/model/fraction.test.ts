import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { fractionText, partsOfFraction } from './fraction.ts';
import { gpuParts, PARTS_PER_GPU } from './gpu-parts.ts';

test('no part of an amount is lost on its way through text, whatever it is cut into', () => {
  const cut = fc.integer({ min: 1, max: 128 });
  const amounts = fc.tuple(fc.nat(1000), cut, fc.constantFrom(1, 4, 7), fc.nat(86_400_000));
  fc.assert(
    fc.property(fc.array(amounts, { maxLength: 6 }), (shares) => {
      const amount = shares.reduce(
        (sum, [count, among, cuts, ms]) => sum + gpuParts(count, among * cuts) * BigInt(ms),
        0n,
      );
      expect(partsOfFraction(fractionText(amount, PARTS_PER_GPU), PARTS_PER_GPU)).toBe(amount);
    }),
  );
});

test('whole amounts read as they are, others in lowest terms', () => {
  expect(fractionText(0n, PARTS_PER_GPU)).toBe('0');
  expect(fractionText(gpuParts(8) * 60_000n, PARTS_PER_GPU)).toBe('480000');
  expect(fractionText(gpuParts(3, 7) * 60_000n, PARTS_PER_GPU)).toBe('180000/7');
  expect(fractionText(12n, 1n)).toBe('12');
});
