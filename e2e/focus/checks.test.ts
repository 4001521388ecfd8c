import { beforeAll, describe, expect, test } from 'vitest';
import { exact, faultsOf, readCsv, type Row } from './checks.ts';
import { focusMonth } from './month.ts';

let rows: readonly Row[];
let manifest: unknown;

beforeAll(async () => {
  const month = await focusMonth();
  rows = readCsv(month.csv);
  manifest = month.manifest;
});

const total = (column: string, of: (row: Row) => boolean = () => true): bigint =>
  rows.filter(of).reduce((sum, row) => sum + exact(row[column] ?? '0'), 0n);

describe('a FOCUS month with every kind of row', () => {
  test('has no fault that the public validator misses, and the sums of the invoice', () => {
    expect(faultsOf(rows)).toStrictEqual([]);
    // 1 of 6.5 GPU hours is included, 3 cost 2.40, 2.5 cost 2.10. 15.123456789 core hours cost 0.03 each.
    // One hour of a load balancer is 0.33, the tokens are 0.12.
    expect(total('BilledCost')).toBe(exact('13.35'));
    expect(total('ConsumedQuantity', (row) => row['x_Metric'] === 'tenant_gpu_hours')).toBe(
      exact('6.5'),
    );
    expect(new Set(rows.map((row) => row['ChargeCategory']))).toStrictEqual(
      new Set(['Usage', 'Adjustment']),
    );
    expect(manifest).toMatchObject({
      complete: false,
      sums: {
        unpriced: [{ metric: 'tenant_instance_hours', quantity: '1.0' }],
        not_charged: [{ metric: 'tenant_gpu_downtime_hours', quantity: '2.0' }],
      },
    });
  });

  test.each<[fault: string, column: string, value: string]>([
    ['ListCost: not price × quantity', 'ListCost', '1.23'],
    ['ListCost: number', 'ListCost', '1.230'],
    ['BilledCost: number', 'BilledCost', '1'],
    ['SkuPriceId: null or not', 'SkuPriceId', ''],
    ['ContractedUnitPrice: null or not', 'ContractedUnitPrice', ''],
    ['ChargePeriodStart: time', 'ChargePeriodStart', '21/11/2026 01:00'],
    ['ChargePeriodStart: time', 'ChargePeriodStart', '2026-10-01T01:00:00.000Z'],
    ['ChargePeriod: too early', 'ChargePeriodStart', '2026-09-30T23:00:00Z'],
    ['ServiceName: two ServiceCategory: Tenant clusters', 'ServiceCategory', 'Storage'],
    ['Tags: not a flat object', 'Tags', '{"meterfeed/a":["b"]}'],
    ['SubAccountId,SubAccountName,SubAccountType: nulls', 'SubAccountId', ''],
    ['ResourceName', 'ResourceName', 'tc-1'],
  ])('would be found with a fault: %s', (fault, column, value) => {
    const at = rows.findIndex(
      (row) => row['SubAccountId'] === 'research' && row['ResourceId'] === 'tc-1',
    );
    const wrong = rows.map((row, index) => (index === at ? { ...row, [column]: value } : row));
    expect(faultsOf(wrong).map((text) => text.replace(/^\d+: /, ''))).toContain(fault);
  });

  test('would be found with the same row twice', () => {
    expect(faultsOf([...rows, ...rows.slice(0, 1)])).toContain('x_RowId: not unique');
  });
});
