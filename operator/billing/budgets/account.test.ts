import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decimalFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { COST_PLACES } from '../../model/pricing/charges.ts';
import {
  bookOf,
  flat,
  matches,
  priceOf,
  smallCharges,
  tiered,
  untiedPrices,
} from '../../model/pricing/testing/price-books.ts';
import { CostSums } from '../usage/cost-sums.ts';
import { planPrices } from '../usage/plan-prices.ts';
import type { UsageItem } from '../usage/usage-sums.ts';
import { BudgetAccount, type OngoingUsage, windowOf } from './account.ts';
import { naivelyReached, naivelyUsed, type NaiveWorld } from './testing/naive.ts';

const GPU = 'tenant_gpu_hours';
const LB = 'tenant_lb_hours';
const HOUR_MS = 3_600_000;
const NANOS = 1_000_000_000n;
const EUR = { kind: 'money', currency: 'EUR' } as const;
const ONE_GPU = { metric: GPU, unit: 'gpu-hours' };
const MONEY = 10n ** BigInt(COST_PLACES);

const at = (text: string): number => Date.parse(text);

function accountOf({ book, counts, from, stored }: Omit<NaiveWorld, 'ongoing'>): BudgetAccount {
  const pricesOf = planPrices([book], () => book.name);
  const period = { from, to: Number.POSITIVE_INFINITY };
  const account = new BudgetAccount({ tenant: 'acme', counts, period, pricesOf });
  for (const item of stored) account.add(item);
  return account;
}

function completeAccount(world: NaiveWorld): BudgetAccount {
  const account = accountOf(world);
  account.setOngoing(world.ongoing ?? []);
  return account;
}

function itemOf(change: Partial<UsageItem>): UsageItem {
  return {
    tenant: 'acme',
    metric: GPU,
    unit: 'gpu-hours',
    quantity: decimalFromNanos(NANOS),
    window_start: '2026-11-21T09:00:00Z',
    ...change,
  };
}

/** Goes on with so many GPUs since a moment. */
function gpus(count: bigint, since: string): readonly OngoingUsage[] {
  return [{ usage: ONE_GPU, nanos: count * NANOS, windowMs: HOUR_MS, since: at(since) }];
}

const NOW = at('2026-11-21T09:00:00Z');

const usages = fc.record({
  metric: fc.constantFrom(GPU, LB),
  unit: fc.constant('units'),
  dimensions: fc.constant({ capacity_type: 'spot' }),
  sku: fc.constantFrom('a', 'b'),
  region: fc.constantFrom('a', 'b'),
});

const newestWindows = fc.record({
  since: fc.integer({ min: NOW - 60_000, max: NOW + 50 }),
  windowMs: fc.constantFrom(1000, 60_000),
});

const worlds: fc.Arbitrary<NaiveWorld> = fc.record({
  book: fc
    .tuple(untiedPrices(GPU), untiedPrices(LB))
    .map((prices): PriceBook => bookOf(prices.flat())),
  counts: fc.constantFrom(EUR, EUR, { kind: 'metric', metric: GPU } as const),
  from: fc.constantFrom(at('2026-11-01T00:00:00Z'), at('2026-11-17T05:20:00Z')),
  stored: fc.array(
    fc
      .tuple(
        usages,
        fc.bigInt({ min: 0n, max: 25n }),
        fc.constantFrom(
          ['2026-11-01T00:00:00Z'],
          ['2026-11-17T05:00:00Z', '2026-11-17T06:00:00Z'],
          ['2026-11-17T06:00:00Z'],
          ['2026-11-21T08:00:00Z'],
        ),
      )
      .map(
        ([usage, nanos, [start, end]]): UsageItem =>
          itemOf({
            ...usage,
            quantity: decimalFromNanos(nanos),
            window_start: start,
            window_end: end,
          }),
      ),
    { maxLength: 6 },
  ),
  ongoing: fc
    .tuple(
      newestWindows,
      newestWindows,
      fc.array(fc.tuple(usages, fc.bigInt({ min: 0n, max: 9000n })), { maxLength: 5 }),
    )
    .map(([gpu, lb, used]) =>
      used.map(([usage, nanos]) => ({ usage, nanos, ...(usage.metric === GPU ? gpu : lb) })),
    ),
});

test('usage that is not in the ledger yet costs what it costs in the ledger, tiers included', () => {
  fc.assert(
    fc.property(worlds, fc.nat({ max: 6 }), (world, count) => {
      // A window that ends after a first credit counts, too.
      const isOpen = (item: UsageItem) => at(item.window_end ?? item.window_start) >= world.from;
      const items = world.stored.filter(isOpen);
      const before = world.stored.filter((item) => !isOpen(item));
      const account = accountOf({ ...world, stored: [...before, ...items.slice(count)] });
      const open = items.slice(0, count).map((item) => ({
        ...item,
        nanos: nanosFromDecimal(item.quantity),
        window: windowOf(item),
      }));
      expect(account.usedAt(NOW, open)).toBe(accountOf(world).used);
      // It is added to the answer only, not to the account.
      expect(account.used).toBe(
        accountOf({ ...world, stored: [...before, ...items.slice(count)] }).used,
      );
    }),
    { numRuns: 300 },
  );
});

describe('the moment at which a level is reached', () => {
  test('is the one that a walk from millisecond to millisecond finds', () => {
    fc.assert(
      fc.property(worlds, fc.integer({ min: 0, max: 110 }), (world, percent) => {
        const until = NOW + 120;
        const level = (naivelyUsed(world, until) * BigInt(percent)) / 100n + 1n;
        const found = completeAccount(world).reaches(level, NOW, until);
        expect(found).toBe(naivelyReached(world, level, NOW, until));
      }),
      { numRuns: 400 },
    );
  });

  test('is found where the price of the whole month falls on the way', () => {
    const prices = fc
      .tuple(smallCharges, matches)
      .map(([charge]) => bookOf([priceOf(GPU, charge)]));
    const moments = fc.record({
      book: prices,
      rate: fc.bigInt({ min: 1n, max: 900n }),
      level: fc.bigInt({ min: 1n, max: 10n ** 21n }),
    });
    fc.assert(
      fc.property(moments, ({ book, rate, level }) => {
        const ongoing = [{ usage: ONE_GPU, nanos: rate, windowMs: 1000, since: NOW }];
        const world: NaiveWorld = { book, counts: EUR, from: NOW - 1000, stored: [], ongoing };
        const found = completeAccount(world).reaches(level, NOW, NOW + 150);
        expect(found).toBe(naivelyReached(world, level, NOW, NOW + 150));
      }),
      { numRuns: 300 },
    );
  });

  test('is another with every window', () => {
    fc.assert(
      fc.property(worlds, fc.array(worlds, { maxLength: 4 }), (world, others) => {
        const account = completeAccount(world);
        for (const { ongoing = [] } of [...others, world]) {
          account.setOngoing(ongoing);
          for (const moment of [NOW, NOW + 77]) {
            expect(account.usedAt(moment)).toBe(naivelyUsed({ ...world, ongoing }, moment));
          }
        }
      }),
    );
  });

  test('stays what it was when the clock steps', () => {
    const stored: UsageItem[] = [];
    const book = bookOf([priceOf(GPU, flat(2.4))]);
    const ongoing = gpus(1n, '2026-11-21T09:00:00Z');
    const account = completeAccount({ book, counts: EUR, from: NOW, stored, ongoing });
    const reached = at('2026-11-21T10:00:00Z');
    const level = (24n * MONEY) / 10n;
    expect(account.reaches(level, NOW, NOW + 7_200_000)).toBe(reached);
    expect(account.reaches(level, NOW - 3_600_000, NOW + 7_200_000)).toBe(reached);
    expect(account.reaches(level, reached + 5000, NOW + 7_200_000)).toBe(reached + 5000);
  });
});

describe('what the ledger has', () => {
  test('comes to ledger × price to the last digit, late usage too', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const { ongoing: _, ...settled } = world;
        const account = completeAccount(world);
        expect(account.used).toBe(naivelyUsed(settled, NOW));
        const late = itemOf({
          window_start: '2026-11-17T06:00:00Z',
          quantity: decimalFromNanos(7n),
        });
        account.add(late);
        const stored = [...world.stored, late];
        expect(account.used).toBe(naivelyUsed({ ...settled, stored }, NOW));
        account.setOngoing([]);
        expect(account.usedAt(NOW)).toBe(account.used);
      }),
    );
  });

  test('comes to the costs of a calendar month before they are rounded', () => {
    const charges = [
      flat(2.4, 3),
      tiered('graduated', [[2, 1.5]], 0.7),
      tiered('volume', [[4, 1.5]], 0.7),
    ];
    for (const charge of charges) {
      const book = bookOf([priceOf(GPU, charge)]);
      const items = [1n, 3n, 5n].map((hours, day) =>
        itemOf({
          quantity: decimalFromNanos(hours * NANOS),
          window_start: `2026-11-0${day + 1}T07:00:00Z`,
        }),
      );
      const pricesOf = planPrices([book], () => book.name);
      const sums = new CostSums([], 1000, pricesOf);
      for (const item of items) sums.add(item);
      if (sums.dependsOnMonths) for (const item of items) sums.months().add(item);
      const from = at('2026-11-01T00:00:00Z');
      const used = accountOf({ book, counts: EUR, from, stored: items }).usedAt(NOW);
      expect(used).toBe((sums.rows()[0]?.cost?.minorUnits ?? 0n) * 10n ** 19n);
    }
  });

  test('is shown rounded line by line, as the costs of the month are', () => {
    const half = decimalFromNanos(NANOS / 2n);
    const book = bookOf([priceOf(GPU, flat(0.29)), priceOf(LB, flat(0.29))]);
    const stored = [itemOf({ quantity: half }), itemOf({ quantity: half, metric: LB })];
    const account = accountOf({ book, counts: EUR, from: at('2026-11-01T00:00:00Z'), stored });
    expect(account.used).toBe((29n * MONEY) / 100n);
    expect(account.usedInMinorUnits(2)).toBe(30n);
  });

  test('fills the tiers of the month in which the period begins, and counts from the period on', () => {
    const book = bookOf([priceOf(GPU, tiered('graduated', [[10, 1]], 0.5))]);
    const stored = ['2026-11-10T09:00:00Z', '2026-11-20T09:00:00Z'].map((start) =>
      itemOf({ window_start: start, quantity: decimalFromNanos(8n * NANOS) }),
    );
    const account = accountOf({ book, counts: EUR, from: at('2026-11-15T00:00:00Z'), stored });
    expect(account.usedAt(NOW)).toBe(5n * MONEY);
  });

  test('counts for nothing, and is named, where it has no price in the currency', () => {
    const book = bookOf([priceOf(GPU, flat(1))], { currency: 'USD' });
    const account = accountOf({ book, counts: EUR, from: 0, stored: [itemOf({})] });
    expect(account.usedAt(NOW)).toBe(0n);
    expect(account.uncounted).toStrictEqual([GPU]);
  });
});

describe('a forecast', () => {
  test('goes on with the prices of each day', () => {
    const rates = [
      { from: '2026-01-01', charge: flat(2) },
      { from: '2026-11-22', charge: flat(4) },
    ];
    const book = bookOf([priceOf(GPU, flat(2), { rates })]);
    const ongoing = gpus(1n, '2026-11-21T23:00:00Z');
    const account = completeAccount({ book, counts: EUR, from: NOW, stored: [], ongoing });
    const now = at('2026-11-21T23:30:00Z');
    const far = at('2027-02-01T00:00:00Z');
    expect(account.forecast(2n * MONEY, now, far)).toBe(at('2026-11-22T00:00:00Z'));
    expect(account.forecast(4n * MONEY, now, far)).toBe(at('2026-11-22T00:30:00Z'));
    expect(account.forecast(98n * MONEY, now, far)).toBe(at('2026-11-23T00:00:00Z'));
  });

  test('begins tiers again with the month', () => {
    const book = bookOf([priceOf(GPU, flat(1, 10))]);
    const stored = [itemOf({ quantity: decimalFromNanos(10n * NANOS) })];
    const ongoing = gpus(1n, '2026-11-30T20:00:00Z');
    const account = completeAccount({ book, counts: EUR, from: NOW, stored, ongoing });
    const now = at('2026-11-30T20:00:00Z');
    const far = at('2026-12-31T00:00:00Z');
    expect(account.forecast(5n * MONEY, now, far)).toBe(at('2026-12-01T11:00:00Z'));
  });

  test('ends with the period', () => {
    const book = bookOf([priceOf(GPU, flat(1))]);
    const pricesOf = planPrices([book], () => book.name);
    const period = { from: at('2026-11-01T00:00:00Z'), to: at('2026-12-01T00:00:00Z') };
    const account = new BudgetAccount({ tenant: 'acme', counts: EUR, period, pricesOf });
    account.setOngoing(gpus(1n, '2026-11-30T20:00:00Z'));
    const now = at('2026-11-30T20:00:00Z');
    const far = at('2026-12-31T00:00:00Z');
    expect(account.forecast(3n * MONEY, now, far)).toBe(at('2026-11-30T23:00:00Z'));
    expect(account.forecast(4n * MONEY, now, far)).toBeUndefined();
  });
});
