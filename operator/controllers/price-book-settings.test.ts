import { describe, expect, test } from 'vitest';
import type { PriceBookSpec } from '../settings/custom-resources.generated.ts';
import { translatePriceBook } from './price-book-settings.ts';
import { COMPLETE_SPECS } from './testing/objects.ts';

type PriceSpec = PriceBookSpec['prices'][number];
type RateSpec = PriceSpec['rates'][number];

const PICOS = 1_000_000_000_000n;
const NANOS = 1_000_000_000n;

const gpu = (change: Partial<PriceSpec> = {}): PriceSpec => ({
  name: 'gpu',
  metric: 'tenant_gpu_hours',
  rates: [{ from: '2026-01-01', amount: '2' }],
  ...change,
});

const rated = (...rates: readonly RateSpec[]): PriceSpec => gpu({ rates: [...rates] });

/** The message about a spec that cannot be used. */
function reported(prices: readonly PriceSpec[], currency = 'EUR'): string {
  const translation = translatePriceBook('gold', { currency, prices: [...prices] });
  return translation.kind === 'invalid' ? translation.message : 'accepted';
}

test('a price book reaches the engine with every field', () => {
  const [complete] = COMPLETE_SPECS.pricebooks as PriceBookSpec[];
  expect(complete && translatePriceBook('gold', complete)).toStrictEqual({
    kind: 'settings',
    settings: {
      name: 'gold',
      currency: 'EUR',
      prices: [
        {
          name: 'h100-spot',
          metric: 'tenant_gpu_hours',
          match: { sku: 'h100', capacity_type: 'spot' },
          rates: [
            {
              from: '2026-01-01',
              charge: { kind: 'flat', picos: PICOS / 800n, includedNanos: 0n },
            },
            { from: '2026-12-01' },
          ],
        },
        {
          name: 'egress',
          metric: 'tenant_network_egress_gb',
          match: {},
          rates: [
            {
              from: '2026-01-01',
              charge: {
                kind: 'graduated',
                tiers: [{ upToNanos: 1000n * NANOS, picos: (PICOS * 8n) / 100n }],
                beyondPicos: (PICOS * 5n) / 100n,
                includedNanos: 100n * NANOS,
              },
            },
            {
              from: '2027-01-01',
              charge: {
                kind: 'volume',
                tiers: [{ upToNanos: NANOS / 2n, picos: (PICOS * 9n) / 100n }],
                beyondPicos: 0n,
                includedNanos: 0n,
              },
            },
          ],
        },
      ],
    },
  });
});

test('the smallest digit of a price is kept, where a double would lose it', () => {
  const spec = {
    currency: 'EUR',
    prices: [rated({ from: '2026-01-01', amount: '123456789012.000000000001' })],
  };
  expect(translatePriceBook('gold', spec)).toMatchObject({
    settings: { prices: [{ rates: [{ charge: { picos: 123_456_789_012_000_000_000_001n } }] }] },
  });
});

test('a price of a million tokens is multiplied by a million, or loses a digit', () => {
  const rate = (fields: object) => ({ from: '2026-01-01', per: 'million' as const, ...fields });
  const flat = [rate({ amount: '0.028' })];
  const graduated = [rate({ graduated: [{ upTo: '5', amount: '2.5' }, { amount: '0.000001' }] })];
  const prices = [flat, graduated].map((rates, index) =>
    gpu({ name: `p${index}`, match: { sku: `${index}` }, rates }),
  );
  expect(translatePriceBook('gold', { currency: 'USD', prices })).toMatchObject({
    settings: {
      prices: [
        { rates: [{ charge: { picos: 28_000n } }] },
        { rates: [{ charge: { tiers: [{ picos: 2_500_000n }], beyondPicos: 1n } }] },
      ],
    },
  });
  const finer = rated({ ...rate({ amount: '0.0000001' }), per: 'million' });
  expect(reported([finer])).toBe(
    'spec.prices[gpu].rates[2026-01-01].amount: too many decimals for a million: "0.0000001"; give at most 6',
  );
});

test('rates in any order hold in the order of their days', () => {
  const later = { from: '2026-12-01', amount: '3' };
  const earlier = { from: '2026-01-01', amount: '2' };
  expect(
    translatePriceBook('gold', { currency: 'EUR', prices: [rated(later, earlier)] }),
  ).toMatchObject({
    settings: { prices: [{ rates: [{ from: '2026-01-01' }, { from: '2026-12-01' }] }] },
  });
});

describe('a price book that cannot be used', () => {
  test('reports everything that is wrong with it at once', () => {
    const message = reported(
      [
        gpu({ match: { capacity_type: 'on_demand', flavour: 'x' } }),
        rated({ from: '2026-02-30', amount: '2,50' }),
      ],
      'EUX',
    );
    for (const problem of [
      'spec.currency: not an ISO 4217 currency: "EUX"',
      'spec.prices[gpu].match: no such capacity_type: "on_demand"; use on-demand, spot, preemptible, reserved',
      'spec.prices[gpu].match: no dimension of tenant_gpu_hours: "flavour"; use one of sku, region, capacity_type',
      'spec.prices[gpu].rates[2026-02-30].from: no such day: "2026-02-30"',
      'spec.prices[gpu].rates[2026-02-30].amount: not an amount: "2,50"; write it as in 0.035',
    ]) {
      expect(message).toContain(problem);
    }
  });

  test('with a hundred mistakes reports the first twenty, and how many there are more', () => {
    const rates = Array.from({ length: 24 }, (_, index) => ({
      from: `2026-01-${String(index + 1).padStart(2, '0')}`,
      amount: 'x',
    }));
    expect(reported([rated(...rates)])).toMatch(/; and 4 more$/);
  });

  const tiers = [{ upTo: '10', amount: '2' }, { amount: '1' }];
  test.each<readonly [accident: string, prices: readonly PriceSpec[], message: string]>([
    [
      'two prices that could both hold',
      [gpu({ match: { sku: 'h100' } }), gpu({ name: 'eu', match: { region: 'eu' } })],
      'spec.prices: "gpu" and "eu" could apply to the same usage',
    ],
    [
      'a price of what nobody is charged for',
      [gpu({ metric: 'tenant_gpu_utilization' })],
      'spec.prices[gpu].metric: informational, never charged',
    ],
    [
      'a price for each tenant, which is what plans are for',
      [gpu({ match: { tenant: 'acme' } })],
      'spec.prices[gpu].match: no price depends on it: "tenant"',
    ],
    [
      'a queue, which whoever labels a pod chooses',
      [gpu({ match: { queue: 'cheap' } })],
      'spec.prices[gpu].match: no dimension of tenant_gpu_hours: "queue"',
    ],
    [
      'a key that no event of any metric can have',
      [gpu({ metric: 'llm_tokens', match: { 'model-name': 'large' } })],
      'spec.prices[gpu].match: no price depends on it: "model-name"',
    ],
    [
      'a rate without a price, which would be free',
      [rated({ from: '2026-01-01' })],
      'spec.prices[gpu].rates[2026-01-01]: give one of amount, graduated, volume and withdrawn: true',
    ],
    [
      'a rate with two prices',
      [rated({ from: '2026-01-01', amount: '1', volume: tiers })],
      'give one of amount, graduated, volume and withdrawn: true',
    ],
    [
      'two rates of one day',
      [rated({ from: '2026-01-01', amount: '1' }, { from: '2026-01-01', amount: '2' })],
      'spec.prices[gpu].rates: two rates begin on one day: "2026-01-01"',
    ],
    [
      'tiers out of order',
      [
        rated({
          from: '2026-01-01',
          graduated: [{ upTo: '10', amount: '2' }, { upTo: '10.0', amount: '1' }, { amount: '1' }],
        }),
      ],
      'spec.prices[gpu].rates[2026-01-01].graduated[1].upTo: not above the tier before: "10.0"',
    ],
    [
      'tiers that end',
      [rated({ from: '2026-01-01', volume: [{ upTo: '10', amount: '2' }] })],
      'every tier but the last must have upTo, and the last must not',
    ],
    [
      'tiers that begin in the middle of a month',
      [rated({ from: '2026-01-15', graduated: tiers })],
      'spec.prices[gpu].rates: begins inside a month with tiers',
    ],
    [
      'a rate that cuts a month of tiers in two',
      [rated({ from: '2026-01-01', graduated: tiers }, { from: '2026-03-15', amount: '1' })],
      'with tiers or an included quantity: "2026-03-15"',
    ],
    [
      'an included quantity of a price that is gone',
      [rated({ from: '2026-01-01', withdrawn: true, included: '1' })],
      'included: of a price that is withdrawn; leave it out',
    ],
    [
      'a quantity finer than any that is metered',
      [rated({ from: '2026-01-01', amount: '1', included: '0.0000000001' })],
      'included: not a quantity: "0.0000000001"',
    ],
  ])('because of %s says so', (_, prices, message) => {
    expect(reported(prices)).toContain(message);
  });

  test('because gold has no cent says so', () => {
    expect(reported([gpu()], 'XAU')).toMatch(/^spec\.currency: .*"XAU"; give .* such as/);
  });
});

test('a price may depend on a dimension of a metric of the user’s own, which nobody else knows', () => {
  expect(reported([gpu({ metric: 'llm_tokens', match: { model: 'large' } })])).toBe('accepted');
});
