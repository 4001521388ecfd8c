import type { MetricDefinition } from '../model/catalog.ts';
import type { Measure, MeasuredCharge } from './measure.ts';
import { planTemplate } from './plan-query.ts';
import { checkRows, type Sample } from './query-answer.ts';

/** One metric of PROMETHEUS_METRICS_FILE (docs/explanation/prometheus.md#metrics-of-your-own). */
export interface ConfiguredMetric {
  readonly code: string;
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  /** Billing systems receive it; otherwise it is informational. */
  readonly billable: boolean;
  /** A query template; each row of its result is one event. */
  readonly query: string;
  /** The event's dimensions, each with the result's label that gives its value. */
  readonly dimensions: readonly { readonly key: string; readonly label: string }[];
  /** The result's label that gives the event's sku. */
  readonly sku?: string;
}

const AS_IT_IS: readonly [bigint, bigint] = [1n, 1n];

/** The definition of a configured metric for the catalogue and billing systems. */
export function definitionOf(metric: ConfiguredMetric): MetricDefinition {
  const { code, name, unit, description, billable, dimensions, sku } = metric;
  return {
    code,
    name,
    unit,
    description,
    aggregationField: code,
    source: 'prometheus',
    informational: !billable,
    dimensions: [
      'region',
      ...(sku === undefined ? [] : ['sku']),
      ...dimensions.map(({ key }) => key),
      'tenant_cluster',
      'tenant_class',
    ],
  };
}

/** One event for each row of the result. Rows with the same sku and dimensions are refused. */
export function createConfiguredMeasure(metric: ConfiguredMetric): Measure {
  const identityOf = (labels: Sample['labels']): Pick<MeasuredCharge, 'sku' | 'dimensions'> => {
    const sku = metric.sku === undefined ? '' : (labels[metric.sku] ?? '');
    const dimensions = metric.dimensions
      .map(({ key, label }) => [key, labels[label] ?? ''] as const)
      .filter(([, value]) => value !== '');
    return {
      sku: sku === '' ? undefined : sku,
      dimensions: Object.fromEntries(dimensions),
    };
  };
  return {
    metric: metric.code,
    unit: metric.unit,
    plan: (subject, window) => planTemplate(metric.query, subject, window),
    read: ({ rows }) => {
      const key = (labels: Sample['labels']): string => JSON.stringify(identityOf(labels));
      const { good, refused } = checkRows(rows, key, AS_IT_IS);
      const charges = good.map(({ labels, quantity }) => ({ quantity, ...identityOf(labels) }));
      return { charges, refused };
    },
  };
}
