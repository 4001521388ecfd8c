import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { retryDelayMs } from './delivery-result.ts';

test('waits grow to five minutes and never beyond, however long an outage lasts', () => {
  const longest = [1, 2, 3, 8, 9, 10, 1000].map((failures) =>
    retryDelayMs(failures, () => 0.999999),
  );
  expect(longest).toStrictEqual([1000, 2000, 4000, 128_000, 256_000, 300_000, 300_000]);
});

test('senders that failed together do not come back together', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (n, r) => {
        const wait = retryDelayMs(n, () => r);
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBe(Math.round(r * retryDelayMs(n, () => 1)));
      },
    ),
  );
});
