import { describe, expect, test } from 'vitest';
import { cluster } from '../metering/meters/testing/objects.ts';
import {
  createConfiguredMeasure,
  definitionOf,
  type ConfiguredMetric,
} from './configured-metric.ts';
import { createEgressMeasure, createUtilizationMeasure } from './built-in-measures.ts';
import { type QueryResult, type Measure, measuredEvents } from './measure.ts';

const WINDOW = { start: 1_772_366_400_000, end: 1_772_366_460_000 };
const HOUR = { start: WINDOW.start, end: WINDOW.start + 3_600_000 };

type Row = readonly [labels: Readonly<Record<string, string>>, value: string];

function answer(...rows: readonly Row[]): QueryResult['rows'] {
  const samples = rows.map(([labels, value]) => ({ labels, value }));
  return { kind: 'vector', samples, malformed: [] };
}

/** The events of an answer, without the fields that all events have. */
function eventsOf(measure: Measure, given: QueryResult, window = WINDOW) {
  const context = { window, region: 'here', recordedAt: '2026-03-01T12:01:30Z', backfilled: false };
  const made = measuredEvents(measure, cluster('a'), measure.read(given, window), context);
  const events = made.events.map(({ quantity, sku, dimensions = {}, properties }) => {
    const { tenant_cluster: _, ...own } = dimensions;
    return { quantity, sku, ...own, ...properties };
  });
  return { events, refused: made.refused };
}

describe('egress', () => {
  const egress = createEgressMeasure('default');

  test('is GiB, rounded once from the sum of all rows', () => {
    expect(eventsOf(egress, { rows: answer([{}, '107374182400']) }).events).toEqual([
      { quantity: '100' },
    ]);
    const thirds = answer([{ z: '1' }, '0.4'], [{ z: '2' }, '0.4'], [{ z: '3' }, '1.5e+00']);
    expect(eventsOf(egress, { rows: thirds }).events).toEqual([{ quantity: '0.000000002' }]);
  });

  test('of a row that cannot be charged does not cost the others', () => {
    const rows = answer([{ z: '1' }, 'NaN'], [{ z: '2' }, '1073741824'], [{ z: '3' }, '-1']);
    expect(eventsOf(egress, { rows })).toEqual({
      events: [{ quantity: '1' }],
      refused: [
        expect.stringMatching(/^not a finite number of at least 0: value: "NaN" of .*z/),
        expect.stringContaining('"-1"'),
      ],
    });
  });

  test.each(['team-1', 'team-alpha', 'a-etcd', '2024', 'x-y-z'])(
    'of synced pods is one row, also where %s ends as the pods of a control plane do',
    (name) => {
      const subject = {
        cluster: cluster(name),
        uniqueName: true,
        firstClusters: new Map<string, string>(),
      };
      const plan = egress.plan(subject, WINDOW);
      const promql = plan.kind === 'query' ? (plan.shared?.promql?.([subject], WINDOW) ?? '') : '';
      const [, ownRow = ''] = /pod=~"([^"]*)"/.exec(promql) ?? [];
      const hasOwnRow = (pod: string): boolean => new RegExp(`^(?:${ownRow})$`).test(pod);
      expect(hasOwnRow(`web-7d9c8b5f6-x2x4z-x-shop-x-${name}`)).toBe(false);
      expect(hasOwnRow(`${name}-0`)).toBe(true);
      expect(hasOwnRow(`${name}-api-7d9c8b5f6-x2x4z`)).toBe(true);
    },
  );

  test('of rows that are there twice is not charged twice', () => {
    const rows = answer([{ z: '1' }, '1073741824'], [{ z: '1' }, '1073741824']);
    expect(eventsOf(egress, { rows })).toEqual({
      events: [],
      refused: [expect.stringContaining('2 rows with the same sku and dimensions')],
    });
  });
});

describe('utilisation', () => {
  const utilization = createUtilizationMeasure('default');
  const h100 = { modelName: 'NVIDIA H100 80GB HBM3' };

  test('U07: is percent times hours of each model, named as GPU hours name it', () => {
    const rows = answer([h100, '50'], [{ gpu_type: 'A10G-SHARED' }, '37.333333333333336']);
    const beside = answer([h100, '2']);
    expect(eventsOf(utilization, { rows, beside }, HOUR)).toEqual({
      events: [
        {
          quantity: '50',
          gpu_type: 'NVIDIA-H100-80GB-HBM3',
          avg_utilization_pct: 50,
          gpu_devices: 2,
        },
        { quantity: '37.333333333', gpu_type: 'A10G', avg_utilization_pct: 37.333333 },
      ],
      refused: [],
    });
    expect(eventsOf(utilization, { rows: answer([h100, '50']) }).events).toMatchObject([
      { quantity: '0.833333333' },
    ]);
  });

  test('of no model, above 100 percent, or of one model twice is refused by itself', () => {
    const rows = answer(
      [{}, '10'],
      [{ model_name: 'A' }, '101'],
      [{ modelName: 'B C' }, '10'],
      [{ modelName: 'B-C' }, '20'],
      [{ modelName: ' ', gpu_type: 'D' }, '100.00000000000001'],
    );
    expect(eventsOf(utilization, { rows }, HOUR)).toEqual({
      events: [{ quantity: '100', gpu_type: 'D', avg_utilization_pct: 100 }],
      refused: [
        expect.stringContaining('2 rows with the same sku and dimensions'),
        expect.stringContaining('no label modelName or gpu_type'),
        expect.stringContaining('more than 100 percent: value: "101" of "A"'),
      ],
    });
  });
});

describe('the number of GPUs', () => {
  const utilization = createUtilizationMeasure('default');
  const besideOf = (metering: Parameters<typeof cluster>[1]): string | undefined => {
    const subject = {
      cluster: cluster('a', metering),
      sharesNamespace: false,
      uniqueName: true,
      firstClusters: new Map<string, string>(),
    };
    const plan = utilization.plan(subject, WINDOW);
    return plan.kind === 'query' ? plan.beside : plan.kind;
  };

  test('is queried by the built-in query beside the built-in utilisation only', () => {
    expect(besideOf({})).toMatch(/^count by \(modelName\).*namespace="tenant-a"/);
    expect(besideOf({ gpuUtilQuery: 'util' })).toBeUndefined();
    expect(besideOf({ gpuCountQuery: 'none' })).toBeUndefined();
  });

  test('is queried by GPU_COUNT_QUERY if it is set', () => {
    const gpuCountQuery = 'count(x{n="{{namespace}}"})';
    expect(besideOf({ gpuCountQuery })).toBe('count(x{n="tenant-a"})');
    expect(besideOf({ gpuCountQuery, gpuUtilQuery: 'util' })).toBe('count(x{n="tenant-a"})');
    expect(besideOf({ gpuCountQuery, gpuUtilQuery: 'none' })).toBe('off');
  });
});

describe('a configured metric', () => {
  const metric: ConfiguredMetric = {
    code: 'tenant_gpu_energy',
    name: 'GPU energy',
    unit: 'joules',
    description: 'Energy',
    billable: true,
    query: 'x',
    dimensions: [
      { key: 'gpu_type', label: 'modelName' },
      { key: 'capacity_type', label: 'ct' },
    ],
    sku: 'modelName',
  };
  const measure = createConfiguredMeasure(metric);

  test('is one event for each row, with the labels that it names', () => {
    const rows = answer(
      [{ modelName: 'H100', ct: 'spot', pod: 'p' }, '6e+04'],
      [{ modelName: 'A10G', ct: '' }, '1.5'],
    );
    expect(eventsOf(measure, { rows }).events).toEqual([
      { quantity: '60000', sku: 'H100', gpu_type: 'H100', capacity_type: 'spot' },
      { quantity: '1.5', sku: 'A10G', gpu_type: 'A10G' },
    ]);
  });

  test('of a row that its dimensions do not distinguish from another, or with a value they may not take, charges the others', () => {
    const rows = answer(
      [{ modelName: 'H100', pod: 'p' }, '1'],
      [{ modelName: 'H100', pod: 'q' }, '2'],
      [{ modelName: 'A10G', ct: 'cheap' }, '3'],
      [{ modelName: 'L4' }, '4'],
      [{ modelName: 'x'.repeat(300) }, '5'],
    );
    const { events, refused } = eventsOf(measure, { rows });
    expect(events).toEqual([{ quantity: '4', sku: 'L4', gpu_type: 'L4' }]);
    expect(refused).toEqual([
      expect.stringContaining('rows with the same sku and dimensions'),
      expect.stringContaining('not one of on-demand, spot'),
      expect.stringContaining('longer than 256 characters'),
    ]);
  });

  test('is known to billing systems with its dimensions, and is informational unless billable', () => {
    expect(definitionOf(metric)).toMatchObject({
      code: 'tenant_gpu_energy',
      source: 'prometheus',
      informational: false,
      dimensions: ['region', 'sku', 'gpu_type', 'capacity_type', 'tenant_cluster', 'tenant_class'],
    });
    expect(definitionOf({ ...metric, billable: false }).informational).toBe(true);
  });
});
