import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Decimal, nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import { bookOf, flat, priceOf, tiered } from '../../model/pricing/testing/price-books.ts';
import { CostSums } from './cost-sums.ts';
import { planPrices } from './plan-prices.ts';
import { tokenCosts } from './token-costs.ts';
import type { UsageItem } from './usage-sums.ts';

const GPUS = 'tenant_gpu_hours';
const TOKENS = 'tenant_inference_tokens';
const NANOS = 1_000_000_000n;

/** Ten a GPU hour, five a million tokens. */
const BOOK = bookOf([priceOf(GPUS, flat(10)), priceOf(TOKENS, flat(0.000_005))]);

function gpus(quantity: number, more: Partial<UsageItem> = {}): UsageItem {
  return usage(GPUS, 'gpu-hours', quantity, more);
}

function tokens(model: string, quantity: number, more: Partial<UsageItem> = {}): UsageItem {
  return usage(TOKENS, 'tokens', quantity, { dimensions: { model }, ...more });
}

function usage(
  metric: string,
  unit: string,
  quantity: number,
  more: Partial<UsageItem>,
): UsageItem {
  return {
    tenant: 'acme',
    metric,
    unit,
    quantity: signedFromNanos(BigInt(Math.round(quantity * 1e9))),
    window_start: '2026-11-02T00:00:00Z',
    source: 'collector',
    ...more,
  };
}

function sumsOf(items: readonly UsageItem[], groupBy: readonly string[], books = [BOOK]): CostSums {
  const plans: Readonly<Record<string, string>> = { dinar: 'dinar' };
  const prices = planPrices(books, (tenant) => plans[tenant] ?? 'tenant-standard');
  const sums = new CostSums(groupBy, 100_000, prices);
  for (const item of items) sums.add(item);
  if (sums.dependsOnMonths) for (const item of items) sums.months().add(item);
  return sums;
}

function costsOf(items: readonly UsageItem[], books = [BOOK]): ReturnType<typeof tokenCosts> {
  const groupBy = ['tenant', 'model'];
  return tokenCosts(groupBy, sumsOf(items, groupBy, books).rows());
}

const ofAcme = { tenant: 'acme', currency: 'EUR' };

describe('what tokens cost in GPUs', () => {
  test('is divided by tokens of every kind, with the price and the margin beside', () => {
    const kinds = ['input', 'cache_read', 'output'].map((token_type) =>
      tokens('big', 1_000_000, { dimensions: { model: 'big', token_type } }),
    );
    expect(costsOf([gpus(0.5), gpus(0.1), ...kinds, tokens('small', 9_000_000)])).toEqual([
      {
        ...ofAcme,
        model: 'big',
        tokens: '3000000',
        gpuCost: { minorUnits: 150n, digits: 2 },
        gpuCostPerMillion: '0.5',
        pricePerMillion: '5',
        margin: { minorUnits: 1_350n, digits: 2 },
      },
      {
        ...ofAcme,
        model: 'small',
        tokens: '9000000',
        gpuCost: { minorUnits: 450n, digits: 2 },
        gpuCostPerMillion: '0.5',
        pricePerMillion: '5',
        margin: { minorUnits: 4_050n, digits: 2 },
      },
    ]);
  });

  test('gives the cents of a division to the models that lost most', () => {
    const thirds = ['a', 'b', 'c'].map((model) => tokens(model, 1_000));
    const shares = costsOf([gpus(0.1), ...thirds]).map(({ gpuCost }) => gpuCost.minorUnits);
    expect(shares).toEqual([34n, 33n, 33n]);
  });

  test('has neither price nor margin where some tokens have no price, instead of zeros', () => {
    const book = bookOf([
      priceOf(GPUS, flat(10)),
      priceOf(TOKENS, flat(0.000_005), { match: { token_type: 'output' } }),
    ]);
    const output = { dimensions: { model: 'a', token_type: 'output' } };
    const [a, b, ...others] = costsOf(
      [gpus(1), tokens('a', 1_000_000, output), tokens('a', 1_000), tokens('b', 1_000_000)],
      [book],
    );
    expect(others).toEqual([]);
    expect(a).toMatchObject({ model: 'a', gpuCost: { minorUnits: 500n } });
    for (const one of [a, b]) {
      expect(one).not.toHaveProperty('pricePerMillion');
      expect(one).not.toHaveProperty('margin');
    }
  });

  test('is known where GPU hours are free: it is zero', () => {
    const free = bookOf([priceOf(GPUS, flat(0))]);
    expect(costsOf([gpus(1), tokens('a', 5)], [free])).toMatchObject([
      { gpuCost: { minorUnits: 0n }, gpuCostPerMillion: '0' },
    ]);
  });

  const spot = bookOf([priceOf(GPUS, flat(10), { match: { capacity_type: 'spot' } })]);
  const onSpot = { dimensions: { capacity_type: 'spot' } };
  test.each([
    ['a tenant without GPUs', [tokens('a', 1)], [BOOK]],
    ['a tenant without tokens', [gpus(1)], [BOOK]],
    ['tokens that corrections took back', [gpus(1), tokens('a', 5), tokens('a', -5)], [BOOK]],
    ['GPUs without a price', [gpus(1), tokens('a', 1)], []],
    ['GPUs of which some have no price', [gpus(1, onSpot), gpus(1), tokens('a', 1)], [spot]],
    ['tokens in another unit', [gpus(1), tokens('a', 1), tokens('b', 1, { unit: 'k' })], [BOOK]],
    [
      'GPUs of one tenant and tokens of another',
      [gpus(1, { tenant: 'b' }), tokens('a', 1)],
      [BOOK],
    ],
  ])('is unknown for %s', (_, items, books) => {
    expect(costsOf(items, books)).toEqual([]);
  });

  test('is unknown where a change of plan leaves two currencies', () => {
    const dinar = bookOf([priceOf(GPUS, flat(10))], { name: 'dinar', currency: 'KWD' });
    const items = [gpus(1), tokens('a', 1)];
    const sums = new CostSums(
      ['tenant', 'model'],
      100,
      planPrices([BOOK, dinar], (_tenant, day) => (day < '2026-11-03' ? 'dinar' : BOOK.name)),
    );
    for (const item of [...items, ...items.map(later)]) sums.add(item);
    expect(tokenCosts(['tenant', 'model'], sums.rows())).toEqual([]);
  });

  test.each([[['tenant']], [['model']], [['tenant', 'model', 'day']]])(
    'is not computed by %j',
    (groupBy) => {
      const rows = sumsOf([gpus(1), tokens('a', 1)], groupBy).rows();
      expect(tokenCosts(groupBy, rows)).toEqual([]);
    },
  );

  test('of all models is the cost of the GPUs, to the minor unit, and no share is a unit off', () => {
    const model = fc.constantFrom('a', 'b', 'c', 'd', '');
    const item = fc.record({
      tenant: fc.constantFrom('acme', 'globex', 'dinar'),
      isGpu: fc.boolean(),
      model,
      // Corrections are negative.
      nanos: fc.bigInt({ min: -20n * NANOS, max: 10_000_000n * NANOS }),
    });
    const charge = fc.constantFrom(
      flat(2.4),
      flat(0.000_333),
      flat(7.123_457),
      tiered('graduated', [[10, 3]], 1.111, 2),
      tiered('volume', [[1_000, 0.01]], 0.003),
    );
    fc.assert(
      fc.property(fc.array(item, { maxLength: 30 }), charge, (drafts, gpuCharge) => {
        const prices = [priceOf(GPUS, gpuCharge), priceOf(TOKENS, flat(0.000_005))];
        const books = [bookOf(prices), bookOf(prices, { name: 'dinar', currency: 'KWD' })];
        const items = drafts.map(({ tenant, isGpu, model: name, nanos }) => ({
          ...(isGpu ? gpus(1, { tenant }) : tokens(name, 1, { tenant })),
          quantity: signedFromNanos(nanos),
        }));
        const costs = costsOf(items, books);
        const total = sumsOf(items, ['tenant'], books).rows();
        for (const { keys, metric, cost } of total) {
          const own = costs.filter(({ tenant }) => tenant === keys[0]);
          if (metric !== GPUS || own.length === 0) continue;
          const all = cost?.minorUnits ?? 0n;
          expect(own.reduce((sum, { gpuCost }) => sum + gpuCost.minorUnits, 0n)).toBe(all);
          const used = own.reduce((sum, one) => sum + nanosFromDecimal(one.tokens), 0n);
          for (const one of own) {
            const nanos = nanosFromDecimal(one.tokens);
            const off = one.gpuCost.minorUnits * used - all * nanos;
            expect(off < used && off > -used).toBe(true);
            expect(one.gpuCostPerMillion).toBe(millionth(all, one.gpuCost.digits, used));
          }
        }
        // Every tenant that has both is there.
        const isThere = (tenant: string): boolean => costs.some((cost) => cost.tenant === tenant);
        for (const tenant of new Set(items.map((one) => one.tenant))) {
          const own = items.filter((one) => one.tenant === tenant);
          const byModel = Map.groupBy(
            own.filter(({ metric }) => metric === TOKENS),
            ({ dimensions }) => dimensions?.['model'],
          );
          const hasTokens = [...byModel.values()].some((of) => sum(of) > 0n);
          expect(isThere(tenant)).toBe(hasTokens && own.some(({ metric }) => metric === GPUS));
        }
      }),
    );
  });
});

function later(item: UsageItem): UsageItem {
  return { ...item, window_start: '2026-11-09T00:00:00Z' };
}

function sum(items: readonly UsageItem[]): bigint {
  return items.reduce((total, { quantity }) => total + nanosFromDecimal(quantity), 0n);
}

/** Of a million tokens, rounded half away from zero to nine digits. */
function millionth(minorUnits: bigint, digits: number, nanos: bigint): Decimal {
  const numerator = minorUnits * 10n ** BigInt(9 - digits) * 1_000_000n * NANOS;
  const size = numerator < 0n ? -numerator : numerator;
  const rounded = (2n * size + nanos) / (2n * nanos);
  return signedFromNanos(numerator < 0n ? -rounded : rounded);
}
