import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { amountText, chargeFields, chargeText, parseAmount } from './amount.ts';
import { monthCost } from './charges.ts';
import { plainCharge, sameCharge } from './same-charge.ts';
import { flat, smallCharges, tiered } from './testing/price-books.ts';

describe('the plain form of a charge', () => {
  test('costs the same for every quantity', () => {
    fc.assert(
      fc.property(smallCharges, fc.bigInt({ min: 0n, max: 120n }), (charge, nanos) => {
        expect(monthCost(plainCharge(charge), nanos)).toBe(monthCost(charge, nanos));
      }),
    );
  });

  test('is one for charges that cost the same, and never for others', () => {
    fc.assert(
      fc.property(smallCharges, smallCharges, (a, b) => {
        // Beyond the last tier, two quantities suffice to distinguish two straight lines.
        const costs = (charge: typeof a) =>
          Array.from({ length: 90 }, (_, nanos) => monthCost(charge, BigInt(nanos)));
        const areSame = costs(a).every((cost, nanos) => cost === costs(b)[nanos]);
        expect(!sameCharge(a, b) || areSame).toBe(true);
        expect(sameCharge(a, plainCharge(a))).toBe(true);
      }),
    );
  });

  test('has an included quantity as a first tier of 0', () => {
    const free = { upToNanos: 100_000_000_000n, picos: 0n };
    expect(plainCharge(flat(2, 100))).toStrictEqual({
      kind: 'graduated',
      tiers: [free],
      beyondPicos: 2_000_000_000_000n,
      includedNanos: 0n,
    });
    expect(
      sameCharge(
        tiered('graduated', [[900, 3]], 1, 100),
        tiered(
          'graduated',
          [
            [100, 0],
            [1000, 3],
          ],
          1,
        ),
      ),
    ).toBe(true);
    expect(sameCharge(tiered('volume', [[10, 3]], 1), tiered('graduated', [[10, 3]], 1))).toBe(
      false,
    );
    expect(sameCharge(tiered('volume', [[10, 3]], 3), flat(3))).toBe(true);
    expect(sameCharge(tiered('volume', [[10, 3]], 1, 5), tiered('volume', [[10, 3]], 1))).toBe(
      false,
    );
  });
});

describe('an amount', () => {
  test('is read as it was written, whatever its size', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), (picos) => {
        expect(parseAmount(amountText(picos))).toBe(picos);
        expect(parseAmount(`${amountText(picos).replace(/^\d+$/, '$&.')}000`)).toBe(picos);
      }),
    );
  });

  test.each(['', '-1', '1e-7', '1,5', ' 1', '.5', '0.0000000000001', 'NaN'])(
    'is not %j',
    (text) => {
      expect(parseAmount(text)).toBeUndefined();
    },
  );

  test('is shown with the fields of a price book, and in a line', () => {
    const graduated = tiered('graduated', [[1000, 0.08]], 0.05, 100);
    expect(chargeFields(graduated)).toStrictEqual({
      graduated: [{ upTo: '1000', amount: '0.08' }, { amount: '0.05' }],
      included: '100',
    });
    expect(chargeText(flat(2.5))).toBe('2.5');
    expect(chargeText(tiered('volume', [[10, 3]], 1))).toBe('all units 3 up to 10, 1 beyond');
  });
});
