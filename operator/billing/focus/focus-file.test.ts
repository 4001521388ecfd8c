import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nanosFromDecimal, parseSigned, signedFromNanos } from '../../model/decimal.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { COST_PLACES } from '../../model/pricing/charges.ts';
import { moneyText } from '../../model/pricing/money.ts';
import {
  bookOf,
  flat,
  priceOf,
  matches,
  tiered,
  untiedPrices,
} from '../../model/pricing/testing/price-books.ts';
import { CostSums } from '../usage/cost-sums.ts';
import type { LateUsage } from '../usage/late-usage.ts';
import { planPrices, type PricesOf } from '../usage/plan-prices.ts';
import type { UsageItem } from '../usage/usage-sums.ts';
import { type FocusRow } from './columns.ts';
import { FocusFile } from './focus-file.ts';
import type { BillingMonth, FocusNames } from './rows.ts';
import { serviceOf } from './services.ts';

const GPU = 'tenant_gpu_hours';
const LB = 'tenant_lb_hours';
const DOWN = 'tenant_gpu_downtime_hours';
const OCTOBER: BillingMonth = {
  from: Date.UTC(2026, 9),
  to: Date.UTC(2026, 10),
  grain: 'hour',
  focusVersion: '1.2',
};
const HOUR = 3_600_000;

const NAMES: FocusNames = {
  provider: 'Example Cloud',
  publisher: 'Example Cloud',
  invoiceIssuer: 'Reseller Ltd',
  hostProvider: 'Metal Inc',
  service: serviceOf,
  metric: (code) => (code === GPU ? { name: 'GPU hours', source: 'collector' } : undefined),
  tenant: (id) => (id === 'acme' ? 'Acme Ltd' : undefined),
  cluster: (id) => (id === 'tc-1' ? 'training' : undefined),
};

interface Ledger {
  readonly items: readonly UsageItem[];
  readonly pricesOf: PricesOf;
}

function priced(book: PriceBook, items: readonly UsageItem[]): Ledger {
  return { items, pricesOf: planPrices([book], (tenant) => (tenant === 'free' ? 'x' : book.name)) };
}

type Late = Pick<LateUsage, 'brought' | 'moved'>;

const NONE: Late = { brought: [], moved: [] };

async function fileOf(
  { items, pricesOf }: Ledger,
  closed = true,
  grain = OCTOBER.grain,
  {
    late = async () => NONE,
    period = OCTOBER,
    hasDowntime = false,
  }: {
    late?: (month: string) => Promise<Late>;
    period?: BillingMonth;
    hasDowntime?: boolean;
  } = {},
) {
  const month = { ...period, grain };
  const file = new FocusFile({
    month,
    closed,
    add: async (sums, { from, to }) => {
      for (const item of items) {
        const start = Date.parse(item.window_start);
        if (start >= from && start < to) sums.add(item);
      }
    },
    late,
    pricesOf,
    isCharged: (metric) => metric !== DOWN,
    hasDowntime,
    names: NAMES,
  });
  const rows: FocusRow[] = [];
  for await (const row of file.rows()) rows.push(row);
  return { rows, sums: file.sums() };
}

function usage(quantity: string, at: number, change: Partial<UsageItem> = {}): UsageItem {
  const decimal = parseSigned(quantity);
  if (decimal === undefined) throw new Error(quantity);
  return {
    tenant: 'acme',
    metric: GPU,
    unit: 'gpu-hours',
    quantity: decimal,
    window_start: new Date(OCTOBER.from + at * HOUR).toISOString(),
    ...change,
  };
}

/** A decimal text in units of 10⁻²¹. Null is an error. */
function exact(text: string | undefined): bigint {
  const [, sign = '', complete = '', fraction = ''] = /^(-?)(\d+)\.(\d+)$/.exec(text ?? '') ?? [];
  if (complete === '') throw new Error(`not a number: "${text}"`);
  return BigInt(sign + complete + fraction.padEnd(COST_PLACES, '0'));
}

const total = (rows: readonly FocusRow[], column: keyof FocusRow): bigint =>
  rows.reduce((sum, row) => sum + exact(row[column]), 0n);

/** Random usage of October by a minute, with corrections that may take more than there was. */
const someUsage: fc.Arbitrary<readonly UsageItem[]> = fc
  .array(
    fc
      .record({
        tenant: fc.constantFrom('acme', 'burst', 'free'),
        metric: fc.constantFrom(GPU, LB, DOWN),
        nanos: fc.bigInt({ min: 0n, max: 40n }),
        minute: fc.integer({ min: 0, max: 31 * 24 * 60 - 1 }),
        corrected: fc.option(fc.bigInt({ min: -60n, max: 20n }), { nil: undefined }),
        match: matches,
      })
      .map(
        ({ tenant, metric, nanos, minute, corrected, match: { sku, region, ...dimensions } }) => {
          const at = minute / 60;
          const item = usage(signedFromNanos(nanos), at, {
            tenant,
            metric,
            unit: 'hours',
            dimensions,
            sku,
            region,
            source: 'collector',
          });
          if (corrected === undefined) return [item];
          return [item, { ...item, quantity: signedFromNanos(corrected), source: 'correction' }];
        },
      ),
    { maxLength: 30 },
  )
  .map((all) => all.flat());

const books = fc
  .tuple(untiedPrices(GPU), untiedPrices(LB))
  .map(([gpu, lb]) => bookOf([...gpu, ...lb]));

describe('a FOCUS file', () => {
  test('adds up to costs to the cent and to the ledger to the last digit', async () => {
    const property = fc.asyncProperty(
      books,
      someUsage,
      fc.constantFrom('hour' as const, 'day' as const),
      async (book, items, grain) => {
        const ledger = priced(book, items);
        const { rows, sums } = await fileOf(ledger, true, grain);
        const costs = new CostSums(['tenant'], 100_000, ledger.pricesOf);
        const charged = items.filter(({ metric }) => metric !== DOWN);
        for (const item of charged) costs.add(item);
        for (const item of charged) costs.months().add(item);
        for (const { keys, metric, quantity, unpriced, cost } of costs.rows()) {
          const mine = rows.filter(
            (row) => row.BillingAccountId === keys[0] && row.x_Metric === metric,
          );
          const known = mine.filter((row) => row.ChargeCategory === 'Usage');
          const consumed =
            nanosFromDecimal(quantity) - nanosFromDecimal(unpriced ?? ('0' as never));
          expect(total(known, 'ConsumedQuantity')).toBe(consumed * 10n ** 12n);
          expect(total(known, 'PricingQuantity')).toBe(consumed * 10n ** 12n);
          const invoiced = exact(moneyText(cost?.minorUnits ?? 0n, 2));
          for (const column of [
            'BilledCost',
            'EffectiveCost',
            'ListCost',
            'ContractedCost',
          ] as const)
            expect(total(mine, column)).toBe(invoiced);
          const left = sums.unpriced.find((sum) => sum.tenant === keys[0] && sum.metric === metric);
          expect(exact(left?.quantity ?? '0.0')).toBe(
            nanosFromDecimal(unpriced ?? ('0' as never)) * 10n ** 12n,
          );
          const summed = sums.charged.filter(
            (sum) => sum.tenant === keys[0] && sum.metric === metric,
          );
          expect(summed.reduce((sum, { cost: text }) => sum + exact(text), 0n)).toBe(invoiced);
        }
        for (const row of rows) {
          if (row.ChargeCategory !== 'Usage') continue;
          const product = exact(row.ContractedUnitPrice) * exact(row.PricingQuantity);
          expect(product).toBe(exact(row.BilledCost) * 10n ** 21n);
        }
        expect(new Set(rows.map((row) => row.x_RowId)).size).toBe(rows.length);
        expect(rows.some((row) => row.x_Metric === DOWN)).toBe(false);
      },
    );
    await fc.assert(property, { numRuns: 300 });
  });

  test('and the files of two later months bill late usage once, to the cent and the last digit', async () => {
    const property = fc.asyncProperty(
      books,
      someUsage,
      fc.infiniteStream(fc.integer({ min: 0, max: 3 })),
      fc.constantFrom('hour' as const, 'day' as const),
      async (book, items, choices, grain) => {
        const ledger = priced(book, items);
        // The hours of late usage begin with the hour, as in stored sums.
        const usages = items.map((item) => {
          const by = ['2026-10', '2026-10', '2026-11', '2026-12'][choices.next().value ?? 0] ?? '';
          const start = `${item.window_start.slice(0, 13)}:00:00.000Z`;
          return { by, item: { ...item, window_start: start }, events: 1 };
        });
        const late = async (month: string): Promise<Late> => ({
          brought: usages.filter(({ by }) => by === month && month !== '2026-10'),
          moved: month === '2026-10' ? usages.filter(({ by }) => by !== month) : [],
        });
        const months = [9, 10, 11].map((index) => ({
          from: Date.UTC(2026, index),
          to: Date.UTC(2026, index + 1),
          grain,
          focusVersion: OCTOBER.focusVersion,
        }));
        const rows: FocusRow[] = [];
        for (const period of months) {
          rows.push(...(await fileOf(ledger, true, grain, { late, period })).rows);
        }
        const { rows: together } = await fileOf(ledger, true, grain);
        const tenants = new Set(together.map((row) => row.BillingAccountId));
        for (const tenant of tenants) {
          const of = (all: readonly FocusRow[]) =>
            all.filter((row) => row.BillingAccountId === tenant);
          expect(total(of(rows), 'BilledCost')).toBe(total(of(together), 'BilledCost'));
          const used = (all: readonly FocusRow[]) =>
            of(all).filter((row) => row.ChargeCategory === 'Usage');
          expect(total(used(rows), 'ConsumedQuantity')).toBe(
            total(used(together), 'ConsumedQuantity'),
          );
        }
        expect(new Set(rows.map((row) => row.x_RowId)).size).toBe(rows.length);
        expect(
          rows.every(
            (row) =>
              (row.ChargeClass === 'Correction') ===
              (row.BillingPeriodStart !== '2026-10-01T00:00:00Z'),
          ),
        ).toBe(true);
      },
    );
    await fc.assert(property, { numRuns: 200 });
  });

  test('with downtime has its hours in rows of no cost, and all other rows as they are', async () => {
    const columns = ['BilledCost', 'EffectiveCost', 'ListCost', 'ContractedCost'] as const;
    const property = fc.asyncProperty(books, someUsage, async (book, items) => {
      const ledger = priced(book, items);
      const [without, { rows, sums }] = await Promise.all([
        fileOf(ledger),
        fileOf(ledger, true, 'hour', { hasDowntime: true }),
      ]);
      const down = rows.filter((row) => row.x_Metric === DOWN);
      expect(rows.filter((row) => row.x_Metric !== DOWN)).toStrictEqual(without.rows);
      expect(sums).toStrictEqual(without.sums);
      for (const tenant of ['acme', 'burst', 'free']) {
        const mine = down.filter((row) => row.BillingAccountId === tenant);
        const measured = sums.not_charged.find((sum) => sum.tenant === tenant);
        // No row can name the currency of a tenant whose plan has no prices.
        const hours = tenant === 'free' ? '0.0' : (measured?.quantity ?? '0.0');
        expect(total(mine, 'ConsumedQuantity')).toBe(exact(hours));
      }
      for (const row of down) {
        for (const column of columns) expect(row[column]).toBe('0.0');
        expect(row).toMatchObject({
          ChargeCategory: 'Usage',
          PricingQuantity: '0.0',
          ListUnitPrice: '0.0',
          SkuPriceId: expect.stringMatching(/^tenant-standard\/free\/tenant_gpu_downtime_hours/),
        });
      }
      expect(new Set(rows.map((row) => row.x_RowId)).size).toBe(rows.length);
    });
    await fc.assert(property, { numRuns: 200 });
  });

  test('fills tiers in time order, and a correction empties the tier filled last', async () => {
    const book = bookOf([priceOf(GPU, tiered('graduated', [[10, 2]], 1, 3))]);
    const { rows } = await fileOf(
      priced(book, [
        usage('12', 5, { source: 'collector' }),
        usage('2', 1, { source: 'collector' }),
        usage('-1.5', 6, { source: 'correction' }),
      ]),
    );
    const shown = rows.map((row) => [
      row.ChargePeriodStart?.slice(8, 13),
      row.ConsumedQuantity,
      row.ContractedUnitPrice,
      row.BilledCost,
      row.SkuPriceId?.split('#')[1] ?? '1',
    ]);
    expect(shown).toStrictEqual([
      ['01T01', '2.0', '0.0', '0.0', '1'],
      ['01T05', '1.0', '0.0', '0.0', '1'],
      ['01T05', '10.0', '2.0', '20.0', '2'],
      ['01T05', '1.0', '1.0', '1.0', '3'],
      ['01T06', '-1.0', '1.0', '-1.0', '3'],
      ['01T06', '-0.5', '2.0', '-1.0', '2'],
    ]);
  });

  test('has the price of the reached tier from the first hour on where all units have it', async () => {
    const book = bookOf([priceOf(GPU, tiered('volume', [[10, 2]], 1))]);
    const { rows } = await fileOf(priced(book, [usage('4', 1), usage('8', 700)]));
    expect(rows.map((row) => row.BilledCost)).toStrictEqual(['4.0', '8.0']);
  });

  test('of an open month has no rounding: it would be charged again with every hour', async () => {
    const book = bookOf([priceOf(GPU, flat(0.333))]);
    const open = await fileOf(priced(book, [usage('1', 1)]), false);
    expect(open.rows.map((row) => row.BilledCost)).toStrictEqual(['0.333']);
    const { rows } = await fileOf(priced(book, [usage('1', 1)]));
    expect(rows[1]).toMatchObject({
      ChargeCategory: 'Adjustment',
      BilledCost: '-0.003',
      ListCost: '-0.003',
      ChargePeriodStart: '2026-10-01T00:00:00Z',
      ChargePeriodEnd: '2026-11-01T00:00:00Z',
    });
    expect(rows[1]).not.toHaveProperty('PricingQuantity');
    expect(rows[1]).not.toHaveProperty('SkuId');
  });

  test('names what an auditor looks for, and leaves out what is unknown', async () => {
    const h100 = priceOf(GPU, flat(2.4), {
      name: 'h100',
      match: { sku: 'h100', capacity_type: 'spot' },
    });
    const item = usage('1.25', 9, {
      sku: 'h100',
      project: 'research',
      region: 'eu-1',
      resource_id: 'node-7',
      source: 'collector',
      dimensions: { tenant_cluster: 'tc-1', zone: 'eu-1a', capacity_type: 'spot', namespace: 'ml' },
    });
    const { rows } = await fileOf(
      priced(bookOf([h100]), [item, usage('1', 9, { tenant: 'gone' })]),
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      AvailabilityZone: 'eu-1a',
      BilledCost: '3.0',
      BillingAccountId: 'acme',
      BillingAccountName: 'Acme Ltd',
      ChargeCategory: 'Usage',
      ChargeDescription: 'GPU hours, h100, price h100',
      ChargePeriodEnd: '2026-10-01T10:00:00Z',
      ConsumedUnit: 'GPU-Hours',
      HostProviderName: 'Metal Inc',
      InvoiceIssuerName: 'Reseller Ltd',
      ProviderName: 'Example Cloud',
      RegionId: 'eu-1',
      ResourceId: 'tc-1/node-7',
      ResourceType: 'Node',
      ServiceCategory: 'Compute',
      SkuId: 'tenant_gpu_hours:h100',
      SkuPriceDetails: '{"GpuCount":1,"x_CapacityType":"spot"}',
      SkuPriceId: 'tenant-standard/h100/tenant_gpu_hours:h100',
      SubAccountId: 'research',
      Tags: '{"meterfeed/capacity_type":"spot","meterfeed/namespace":"ml"}',
      x_Source: 'collector',
    });
    expect(rows[0]?.InvoiceId).toBeUndefined();
    expect(rows[0]?.ChargeClass).toBeUndefined();
  });

  test('names the tenant cluster as the resource by its own name, never by its id again', async () => {
    const book = bookOf([priceOf(GPU, flat(1))]);
    const inCluster = (id: string) => usage('1', 1, { dimensions: { tenant_cluster: id } });
    const { rows } = await fileOf(priced(book, [inCluster('tc-1'), inCluster('tc-9')]));
    expect(rows.map((row) => [row.ResourceId, row.ResourceName])).toStrictEqual([
      ['tc-1', 'training'],
      ['tc-9', undefined],
    ]);
  });
});
