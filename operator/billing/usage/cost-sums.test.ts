import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decimalFromNanos, nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { dependsOnMonth } from '../../model/pricing/charges.ts';
import { countedCost, foundOneByOne } from '../../model/pricing/testing/one-by-one.ts';
import {
  bookOf,
  flat,
  matches,
  priceOf,
  tiered,
  untiedPrices,
} from '../../model/pricing/testing/price-books.ts';
import { CostSums } from './cost-sums.ts';
import { costAmounts, costTotals } from './cost-totals.ts';
import { planPrices } from './plan-prices.ts';
import type { UsageItem } from './usage-sums.ts';

const GPU = 'tenant_gpu_hours';
const LB = 'tenant_lb_hours';
const MANY = 100_000;

interface Range {
  readonly from: string;
  readonly to: string;
}

const ALL: Range = { from: '2026-09-01', to: '2026-12-01' };

/**
 * The sums of everything, as a request for a range makes them; all tenants are on the plan of the
 * book.
 */
function sumsOf(
  book: PriceBook,
  items: readonly UsageItem[],
  groupBy: readonly string[],
  range: Range = ALL,
): CostSums {
  const sums = new CostSums(
    groupBy,
    MANY,
    planPrices([book], () => book.name),
  );
  for (const item of items) if (isIn(item, range)) sums.add(item);
  if (sums.dependsOnMonths) {
    const months = sums.months();
    const [first, last] = [range.from.slice(0, 7), lastMonth(range)];
    for (const item of items) {
      const month = item.window_start.slice(0, 7);
      if (month >= first && month <= last) months.add(item);
    }
  }
  return sums;
}

function isIn({ window_start: start }: UsageItem, { from, to }: Range): boolean {
  return start.slice(0, 10) >= from && start.slice(0, 10) < to;
}

function lastMonth({ to }: Range): string {
  return new Date(Date.parse(to) - 1).toISOString().slice(0, 7);
}

/** What a range costs in minor units: line by line, each unit counted, each line rounded once. */
function naiveCost(book: PriceBook, items: readonly UsageItem[], range: Range): bigint {
  const found = items.map((item) => {
    const price = foundOneByOne(book.prices, item, item.window_start.slice(0, 10));
    const month = item.window_start.slice(0, 7);
    const line = price && `${item.tenant} ${price.name} ${price.from} ${month}`;
    return { item, price, line, nanos: nanosFromDecimal(item.quantity) };
  });
  let cost = 0n;
  for (const line of new Set(found.map((one) => one.line))) {
    const members = found.filter((one) => one.line === line);
    const charge = members[0]?.price?.charge;
    if (line === undefined || charge === undefined) continue;
    const month = members.reduce((sum, { nanos }) => sum + nanos, 0n);
    const requested = members.filter(({ item }) => isIn(item, range));
    const part = requested.reduce((sum, { nanos }) => sum + nanos, 0n);
    // Half up of cost × part ÷ month, to the cent.
    const complete = countedCost(charge, month) * part;
    cost += (2n * complete + month * 10n ** 19n) / (2n * month * 10n ** 19n);
  }
  return cost;
}

const someItems: fc.Arbitrary<readonly UsageItem[]> = fc.array(
  fc
    .record({
      tenant: fc.constantFrom('acme', 'burst'),
      metric: fc.constantFrom(GPU, LB),
      nanos: fc.bigInt({ min: 1n, max: 40n }),
      day: fc.integer({ min: 0, max: 90 }),
      match: matches,
    })
    .map(
      ({ tenant, metric, nanos, day, match: { sku, region, ...dimensions } }): UsageItem => ({
        tenant,
        metric,
        unit: 'hours',
        quantity: decimalFromNanos(nanos),
        window_start: new Date(Date.parse(ALL.from) + day * 86_400_000).toISOString(),
        dimensions,
        sku,
        region,
      }),
    ),
  { maxLength: 40 },
);

const books = fc
  .tuple(untiedPrices(GPU), untiedPrices(LB))
  .map(([gpu, lb]) => bookOf([...gpu, ...lb]));

const ranges = fc
  .uniqueArray(
    fc.constantFrom('2026-09-01', '2026-09-20', '2026-10-05', '2026-11-01', '2026-12-01'),
    {
      minLength: 2,
      maxLength: 2,
    },
  )
  .map((days): Range => {
    const [from = '', to = ''] = days.toSorted();
    return { from, to };
  });

const GROUPS = [[], ['tenant'], ['day', 'sku'], ['region', 'capacity_type', 'tenant'], ['hour']];

describe('costs', () => {
  test('are those of a naive sum over all events, whatever the price book', () => {
    fc.assert(
      fc.property(
        books,
        someItems,
        ranges,
        fc.constantFrom(...GROUPS),
        (book, all, range, keys) => {
          const rows = sumsOf(book, all, keys, range).rows();
          const cost = costAmounts(rows)[0]?.cost.minorUnits ?? 0n;
          expect(cost).toBe(naiveCost(book, all, range));
        },
      ),
      { numRuns: 400 },
    );
  });

  test('are the same whatever order events come in', () => {
    fc.assert(
      fc.property(books, someItems, (book, all) => {
        const backwards = all.toReversed();
        expect(sumsOf(book, backwards, ['day', 'sku']).rows()).toStrictEqual(
          sumsOf(book, all, ['day', 'sku']).rows(),
        );
      }),
    );
  });

  test('have every quantity in a row, priced or not', () => {
    fc.assert(
      fc.property(books, someItems, (book, all) => {
        const rows = sumsOf(book, all, ['day']).rows();
        for (const metric of [GPU, LB]) {
          const own = all.filter((item) => item.metric === metric);
          const used = own.reduce((sum, { quantity }) => sum + nanosFromDecimal(quantity), 0n);
          const without = own.filter(
            (item) =>
              foundOneByOne(book.prices, item, item.window_start.slice(0, 10)) === undefined,
          );
          const unpriced = without.reduce((sum, one) => sum + nanosFromDecimal(one.quantity), 0n);
          const total = costTotals(rows).find((one) => one.metric === metric);
          expect(total?.quantity ?? '0').toBe(decimalFromNanos(used));
          expect(total?.unpriced ?? '0').toBe(decimalFromNanos(unpriced));
          expect(total?.cost === undefined).toBe(without.length === own.length);
        }
      }),
    );
  });
});

function usage(quantity: string, change: Partial<UsageItem> = {}): UsageItem {
  return {
    tenant: 'acme',
    metric: GPU,
    unit: 'gpu-hours',
    quantity: signedFromNanos(BigInt(Math.round(Number(quantity) * 1e9))),
    window_start: '2026-11-21T09:00:00Z',
    ...change,
  };
}

const gpus = bookOf([priceOf(GPU, flat(2.5))]);

describe('a row', () => {
  test('without a price has no cost, and with a price of zero costs nothing', () => {
    const free = bookOf([priceOf(GPU, flat(0))]);
    expect(sumsOf(free, [usage('3')], ['tenant']).rows()).toMatchObject([
      { quantity: '3', currency: 'EUR', cost: { minorUnits: 0n, digits: 2 } },
    ]);
    const [row] = sumsOf(free, [usage('3', { metric: LB })], ['tenant']).rows();
    expect(row).toMatchObject({ quantity: '3', unpriced: '3', currency: 'EUR' });
    expect(row).not.toMatchObject({ cost: expect.anything() });
  });

  test('of a tenant whose plan nobody prices has no currency either', () => {
    const sums = new CostSums(
      ['tenant'],
      MANY,
      planPrices([gpus], () => 'bronze'),
    );
    sums.add(usage('3'));
    expect(sums.rows()).toEqual([
      { keys: ['acme'], metric: GPU, unit: 'gpu-hours', events: 1, quantity: '3', unpriced: '3' },
    ]);
  });

  test('is one for each currency, which are never added up', () => {
    const yen = bookOf([priceOf(GPU, flat(400))], { name: 'nihon', currency: 'JPY' });
    const plans = new Map([
      ['acme', gpus.name],
      ['kita', yen.name],
    ]);
    const sums = new CostSums(
      [],
      MANY,
      planPrices([gpus, yen], (tenant) => plans.get(tenant)),
    );
    sums.add(usage('1'));
    sums.add(usage('1', { tenant: 'kita' }));
    expect(costAmounts(sums.rows())).toStrictEqual([
      { currency: 'EUR', cost: { minorUnits: 250n, digits: 2 } },
      { currency: 'JPY', cost: { minorUnits: 400n, digits: 0 } },
    ]);
  });

  test('by price is a line of an invoice, and what has no price is in one of its own', () => {
    const spot = priceOf(GPU, flat(1), { name: 'spot', match: { capacity_type: 'spot' } });
    const book = bookOf([priceOf(GPU, flat(2.5)), spot]);
    const usages = [
      usage('1'),
      usage('2', { region: 'eu' }),
      usage('3', { dimensions: { capacity_type: 'spot', price: 'a dimension' } }),
      usage('4', { metric: LB }),
    ];
    const rows = sumsOf(book, usages, ['plan', 'price']).rows();
    expect(
      rows.map(({ keys, quantity, cost }) => [...keys, quantity, cost?.minorUnits]),
    ).toStrictEqual([
      ['tenant-standard', '', '4', undefined],
      ['tenant-standard', 'spot', '3', 300n],
      ['tenant-standard', GPU, '3', 750n],
    ]);
  });

  test('below zero, where corrections outweigh its usage, gives back what its units cost', () => {
    const source = (name: string) => ({ source: name });
    const rows = sumsOf(
      gpus,
      [usage('4', source('push')), usage('-1', source('correction'))],
      ['source'],
    ).rows();
    expect(rows.map(({ cost }) => cost?.minorUnits)).toStrictEqual([-250n, 1000n]);
  });
});

describe('a month of tiers', () => {
  const book = bookOf([priceOf(GPU, tiered('graduated', [[10, 3]], 1))]);
  const day = (date: string) => ({ window_start: `${date}T09:00:00Z` });

  test('costs by all of it, and a day of it has its share', () => {
    const items = [usage('10', day('2026-11-02')), usage('30', day('2026-11-03'))];
    const second = { from: '2026-11-03', to: '2026-11-04' };
    const cost = (range: Range) => costAmounts(sumsOf(book, items, [], range).rows())[0]?.cost;
    // 10 × 3 + 30 × 1 = 60 for 40 hours.
    expect(cost(ALL)?.minorUnits).toBe(6000n);
    expect(cost(second)?.minorUnits).toBe(4500n);
  });

  test('begins again with every month and for every tenant', () => {
    const items = [
      usage('10', day('2026-10-31')),
      usage('10', day('2026-11-01')),
      usage('10', { tenant: 'burst' }),
    ];
    expect(costAmounts(sumsOf(book, items, []).rows())[0]?.cost.minorUnits).toBe(9000n);
  });

  test('counts what a filter leaves out of the rows', () => {
    const sums = new CostSums(
      [],
      MANY,
      planPrices([book], () => book.name),
    );
    const [requested, other] = [usage('10', { region: 'eu' }), usage('30', { region: 'us' })];
    sums.add(requested);
    for (const item of [requested, other]) sums.months().add(item);
    expect(costAmounts(sums.rows())[0]?.cost.minorUnits).toBe(1500n);
  });

  test('is not looked up where no price depends on it', () => {
    expect(dependsOnMonth(flat(1))).toBe(false);
    expect(sumsOf(gpus, [usage('1')], []).dependsOnMonths).toBe(false);
    expect(sumsOf(book, [usage('1')], []).dependsOnMonths).toBe(true);
  });
});

test('a question with too many rows or lines takes all memory', () => {
  const sums = new CostSums(
    ['tenant'],
    2,
    planPrices([gpus], () => gpus.name),
  );
  expect(sums.add(usage('1'))).toBe(true);
  expect(sums.add(usage('1', { window_start: '2026-10-01T00:00:00Z' }))).toBe(true);
  expect(sums.add(usage('1', { tenant: 'burst' }))).toBe(false);
  expect(sums.add(usage('1', { window_start: '2026-09-01T00:00:00Z' }))).toBe(false);
  expect(sums.add(usage('1'))).toBe(true);
  expect(sums.rows()).toMatchObject([{ keys: ['acme'], quantity: '3', events: 3 }]);
});
