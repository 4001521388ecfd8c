import type { MetricDefinition } from '../model/catalog.ts';
import { quote } from '../model/quote.ts';
import type { Measure, MeasuredCharge, Plan, SharedQuery } from './measure.ts';
import { renderQuery } from './plan-query.ts';
import { checkRows, numberOf, type Sample } from './query-answer.ts';

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
  /** The result's label that names the tenant: the query is one for all tenants. */
  readonly tenantLabel?: string;
}

/** Most rows of one tenant in one window; each becomes a usage event. */
const MOST_SERIES = 1_000;

const AS_IT_IS: readonly [bigint, bigint] = [1n, 1n];

/** The definition of a configured metric for the catalogue and billing systems. */
export function definitionOf(metric: ConfiguredMetric): MetricDefinition {
  const { code, name, unit, description, billable, dimensions, sku, tenantLabel } = metric;
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
      ...(tenantLabel === undefined ? ['tenant_cluster', 'tenant_class'] : []),
    ],
  };
}

/** One event for each row of the result. Rows with the same sku and dimensions are refused. */
export function createConfiguredMeasure(metric: ConfiguredMetric): Measure {
  const { tenantLabel } = metric;
  const shared = tenantLabel === undefined ? undefined : byTenant(tenantLabel);
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
    ...(shared !== undefined && { ofTenant: true }),
    plan: (subject, window): Plan => {
      const plan = renderQuery(metric.query, subject.cluster, window);
      if (shared === undefined || plan.kind !== 'query') return plan;
      const { tenant, id } = subject.cluster;
      if (subject.firstClusters.get(tenant) !== id) return { kind: 'off' };
      return { ...plan, shared, onlyShared: true };
    },
    read: ({ rows }) => {
      const key = (labels: Sample['labels']): string => JSON.stringify(identityOf(labels));
      const { good, refused } = checkRows(rows, key, AS_IT_IS);
      const charges = good.map(({ labels, quantity }) => ({ quantity, ...identityOf(labels) }));
      return { charges, refused };
    },
  };
}

/**
 * Splits the rows by the tenant that a label names
 * (docs/explanation/prometheus.md#one-query-for-all-tenants). A tenant with too many rows has no
 * answer: some of them would be billed as all.
 */
function byTenant(label: string): SharedQuery {
  const tenantOf = ({ labels }: Sample): string => labels[label] ?? '';
  return {
    split: ({ samples }, subjects) => {
      const byName = Map.groupBy(samples, tenantOf);
      return subjects.map(({ cluster: { tenant } }) => {
        const own = byName.get(tenant) ?? [];
        return own.length > MOST_SERIES
          ? `more than ${MOST_SERIES} series in a window: tenant: ${quote(tenant)}: sum by fewer labels`
          : { rows: { kind: 'vector', samples: own, malformed: [] } };
      });
    },
    strangers: ({ samples }, [subject]) =>
      samples
        .filter((sample) => subject?.firstClusters.has(tenantOf(sample)) !== true)
        .filter(({ value }) => numberOf(value) !== 0)
        .map((sample) => `no tenant: ${label}: ${quote(tenantOf(sample))}`),
  };
}
