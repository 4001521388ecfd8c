import * as fc from 'fast-check';
import type {
  PriceCharge,
  FlatCharge,
  Price,
  PriceBook,
  Rate,
  TieredCharge,
} from '../../price-book.ts';
import { areTied } from '../find-price.ts';

const PICOS_PER_UNIT = 1_000_000_000_000n;
const NANOS_PER_UNIT = 1_000_000_000n;

/** A price for each unit. */
export function flat(unitsOfMoney: number, includedUnits = 0): FlatCharge {
  return { kind: 'flat', picos: picos(unitsOfMoney), includedNanos: nanos(includedUnits) };
}

/** Tiers as pairs of the last unit and its price, with the price above them at the end. */
export function tiered(
  kind: TieredCharge['kind'],
  tiers: readonly (readonly [upTo: number, price: number])[],
  beyond: number,
  includedUnits = 0,
): TieredCharge {
  return {
    kind,
    tiers: tiers.map(([upTo, price]) => ({ upToNanos: nanos(upTo), picos: picos(price) })),
    beyondPicos: picos(beyond),
    includedNanos: nanos(includedUnits),
  };
}

/** A price of any usage of a metric since 2026, with `change` applied. */
export function priceOf(metric: string, charge: PriceCharge, change: Partial<Price> = {}): Price {
  return { name: metric, metric, match: {}, rates: [{ from: '2026-01-01', charge }], ...change };
}

export function bookOf(prices: readonly Price[], change: Partial<PriceBook> = {}): PriceBook {
  return { name: 'tenant-standard', currency: 'EUR', prices, ...change };
}

/** Up to five cents for a nano-unit, so that the costs of a few of them differ. */
const dearPicos = fc.bigInt({ min: 0n, max: 5n * 10n ** 19n });
const fewNanos = fc.bigInt({ min: 0n, max: 20n });

const flatCharges: fc.Arbitrary<FlatCharge> = fc.record({
  kind: fc.constant('flat' as const),
  picos: dearPicos,
  includedNanos: fc.constant(0n),
});

/** Charges whose quantities are a few nano-units, so that a test can count them one by one. */
export const smallCharges: fc.Arbitrary<PriceCharge> = fc.oneof(
  flatCharges,
  fc.record({ kind: fc.constant('flat' as const), picos: dearPicos, includedNanos: fewNanos }),
  fc.record({
    kind: fc.constantFrom('graduated' as const, 'volume' as const),
    tiers: fc
      .uniqueArray(fc.record({ upToNanos: fc.bigInt({ min: 1n, max: 60n }), picos: dearPicos }), {
        maxLength: 4,
        selector: ({ upToNanos }) => upToNanos,
      })
      .map((tiers) => tiers.toSorted((a, b) => Number(a.upToNanos - b.upToNanos))),
    beyondPicos: dearPicos,
    includedNanos: fewNanos,
  }),
);

/** What prices may depend on. Each has few values, so that prices and usage often match. */
export const matches = fc.record(
  {
    sku: fc.constantFrom('a', 'b'),
    region: fc.constantFrom('a', 'b'),
    capacity_type: fc.constantFrom('spot', 'reserved'),
    billing_mode: fc.constantFrom('shared', 'private_node'),
    tenant_class: fc.constantFrom('a', 'b'),
  },
  { requiredKeys: [] },
);

/** Rates, about a third of them withdrawals. */
function rates(
  days: readonly string[],
  charges: fc.Arbitrary<PriceCharge>,
): fc.Arbitrary<readonly Rate[]> {
  return fc
    .tuple(
      fc.uniqueArray(fc.constantFrom(...days), { minLength: 1, maxLength: 3 }),
      fc.array(fc.option(charges, { freq: 3, nil: undefined }), { minLength: 3, maxLength: 3 }),
    )
    .map(([from, charge]) =>
      from.toSorted().map((day, index) => ({
        from: day,
        charge: charge[index],
      })),
    );
}

/** Prices of a metric that a PriceBook accepts: no ties, and complete months if tiers count. */
export function untiedPrices(metric: string): fc.Arbitrary<readonly Price[]> {
  const drafts = fc.record({
    match: matches,
    rates: fc.oneof(
      rates(['2026-09-01', '2026-10-01', '2026-11-01'], smallCharges),
      rates(['2026-09-30', '2026-10-17', '2026-11-01', '2026-11-21'], flatCharges),
    ),
  });
  return fc
    .array(drafts, { maxLength: 8 })
    .map((all) =>
      all
        .map((draft, index): Price => ({ name: `${metric}-${index}`, metric, ...draft }))
        .reduce<readonly Price[]>(
          (stored, price) =>
            stored.some((other) => areTied(other, price)) ? stored : [...stored, price],
          [],
        ),
    );
}

function picos(units: number): bigint {
  return BigInt(Math.round(units * 1_000_000)) * (PICOS_PER_UNIT / 1_000_000n);
}

function nanos(units: number): bigint {
  return BigInt(Math.round(units * 1_000)) * (NANOS_PER_UNIT / 1_000n);
}
