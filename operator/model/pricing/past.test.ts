import { describe, expect, test } from 'vitest';
import { fixedBefore, pastChange } from './past.ts';
import { bookOf, flat, priceOf } from './testing/price-books.ts';

const DAY = '2026-11-22';
const GPU = priceOf('tenant_gpu_hours', flat(2));
const BOOK = bookOf([GPU]);

describe('what has been charged', () => {
  test.each([
    ['2026-11-21T00:00:00Z', '2026-11-22'],
    ['2026-11-21T22:59:59.999Z', '2026-11-22'],
    ['2026-11-21T23:00:00Z', '2026-11-23'],
    ['2026-12-31T23:30:00Z', '2027-01-02'],
  ])('at %s is fixed by prices before %s', (now, day) => {
    expect(fixedBefore(Date.parse(now))).toBe(day);
  });

  test.each([
    ['another amount', bookOf([priceOf('tenant_gpu_hours', flat(3))])],
    ['the price taken away', bookOf([])],
    ['another metric', bookOf([{ ...GPU, metric: 'tenant_lb_hours' }])],
    ['other usage', bookOf([{ ...GPU, match: { sku: 'h100' } }])],
    [
      'an earlier beginning',
      bookOf([{ ...GPU, rates: [{ from: '2025-01-01', charge: flat(2) }] }]),
    ],
    [
      'a price slipped in between',
      bookOf([{ ...GPU, rates: [...GPU.rates, { from: '2026-11-21', charge: flat(1) }] }]),
    ],
    [
      'a more specific price of yesterday',
      bookOf([GPU, priceOf('tenant_gpu_hours', flat(1), { name: 'h100', match: { sku: 'h100' } })]),
    ],
  ])('is not changed by %s', (_, next) => {
    expect(pastChange(BOOK, next, DAY)).toMatch(/^spec\.prices: other prices before 2026-11-22/);
  });

  test('keeps its currency', () => {
    const dollars = bookOf([GPU], { currency: 'USD' });
    expect(pastChange(BOOK, dollars, DAY)).toBe('spec.currency: "EUR" has been in force');
    expect(pastChange(bookOf([]), bookOf([], { currency: 'USD' }), DAY)).toBeUndefined();
  });

  test('stays while prices of the days to come are changed, added and taken away', () => {
    const from = DAY;
    const later = bookOf([
      priceOf('tenant_lb_hours', flat(1), { rates: [{ from, charge: flat(1) }] }),
      { ...GPU, rates: [...GPU.rates, { from, charge: flat(5) }] },
    ]);
    expect(pastChange(BOOK, later, DAY)).toBeUndefined();
    expect(pastChange(later, BOOK, DAY)).toBeUndefined();
  });
});
