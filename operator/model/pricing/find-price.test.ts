import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { areTied, PriceFinder, type PricedUsage } from './find-price.ts';
import { foundOneByOne } from './testing/one-by-one.ts';
import { bookOf, flat, matches, priceOf, untiedPrices } from './testing/price-books.ts';

const GPU = 'tenant_gpu_hours';
const usages: fc.Arbitrary<PricedUsage> = matches.map(({ sku, region, ...dimensions }) => ({
  metric: GPU,
  dimensions,
  sku,
  region,
}));
const days = fc.constantFrom('2026-08-31', '2026-10-16', '2026-10-17', '2026-11-01', '2026-12-01');

describe('the price of some usage', () => {
  test('is the one that looking at all of them finds, and there are never two', () => {
    fc.assert(
      fc.property(untiedPrices(GPU), usages, days, (prices, usage, day) => {
        const found = new PriceFinder(bookOf(prices)).find(usage, day);
        expect(found).toStrictEqual(foundOneByOne(prices, usage, day));
      }),
      { numRuns: 500 },
    );
  });

  const general = priceOf(GPU, flat(2));
  const spot = priceOf(GPU, flat(1), { name: 'spot', match: { capacity_type: 'spot' } });
  const usage: PricedUsage = { metric: GPU, dimensions: { capacity_type: 'spot' } };

  test('is the most specific one, wherever it stands', () => {
    for (const prices of [
      [general, spot],
      [spot, general],
    ]) {
      const finder = new PriceFinder(bookOf(prices));
      expect(finder.find(usage, '2026-11-21')?.name).toBe('spot');
      expect(finder.find({ metric: GPU }, '2026-11-21')?.name).toBe(GPU);
    }
  });

  test('is none before the first day and for another metric, not a price of zero', () => {
    const finder = new PriceFinder(bookOf([general]));
    expect(finder.find(usage, '2025-12-31')).toBeUndefined();
    expect(finder.find({ ...usage, metric: 'tenant_lb_hours' }, '2026-11-21')).toBeUndefined();
  });

  test('is the less specific one once the other is withdrawn', () => {
    const rates = [...spot.rates, { from: '2026-12-01' }];
    const finder = new PriceFinder(bookOf([general, { ...spot, rates }]));
    expect(finder.find(usage, '2026-11-30')?.name).toBe('spot');
    expect(finder.find(usage, '2026-12-01')?.name).toBe(GPU);
  });
});

describe('two prices are tied', () => {
  test('exactly when some usage fits both and neither names more', () => {
    fc.assert(
      fc.property(matches, matches, (a, b) => {
        const [first, second] = [a, b].map((match) => priceOf(GPU, flat(1), { match }));
        if (first === undefined || second === undefined) throw new Error('no price');
        const both = { ...a, ...b };
        const fits = JSON.stringify({ ...both, ...a }) === JSON.stringify({ ...both, ...b });
        const tied = fits && Object.keys(a).length === Object.keys(b).length;
        expect(areTied(first, second)).toBe(tied);
        expect(areTied(second, first)).toBe(tied);
      }),
    );
  });

  test('never across metrics', () => {
    expect(areTied(priceOf(GPU, flat(1)), priceOf('tenant_lb_hours', flat(1)))).toBe(false);
  });
});
