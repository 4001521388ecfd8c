/** Where events of a metric come from. */
export type MetricSource = 'collector' | 'custom' | 'prometheus';

/** One metric the service knows (spec 1.2, GET /api/v1/catalog). */
export interface MetricDefinition {
  /** `^[a-z][a-z0-9_]{0,99}$` */
  readonly code: string;
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  /** The property that billing systems sum (spec 1.2). */
  readonly aggregationField: string;
  readonly source: MetricSource;
  /** Informational metrics are not billed and reach a destination only when it asks (design 7). */
  readonly informational: boolean;
  /** Keys by which a billing system may split the metric. */
  readonly dimensions: readonly string[];
}

const POD_KEYS = [
  'region',
  'capacity_type',
  'billing_mode',
  'tenant_cluster',
  'tenant_class',
] as const;

/** The ten metrics that the collector itself measures: nine billable ones of spec 1.2 and the downtime record. */
export const COLLECTOR_METRICS: readonly MetricDefinition[] = [
  metric('tenant_cpu_core_hours', 'CPU core hours', 'core-hours', 'cpu_core_hours', POD_KEYS),
  metric('tenant_memory_gb_hours', 'Memory GiB hours', 'gib-hours', 'memory_gb_hours', POD_KEYS),
  metric('tenant_storage_gb_hours', 'Storage GiB hours', 'gib-hours', 'storage_gb_hours', [
    'region',
    'sku',
    'tenant_cluster',
    'tenant_class',
  ]),
  metric('tenant_instance_hours', 'Tenant cluster instance hours', 'hours', 'instance_hours', [
    'region',
    'tenant_cluster',
    'tenant_class',
  ]),
  metric('tenant_gpu_hours', 'GPU hours', 'gpu-hours', 'gpu_hours', [
    'region',
    'sku',
    'capacity_type',
    'billing_mode',
    'tenant_cluster',
    'tenant_class',
    'gpu_type',
    'gpu_profile',
  ]),
  {
    ...metric('tenant_gpu_utilization', 'GPU utilization', 'util-hours', 'gpu_util_score', [
      'region',
      'gpu_type',
      'tenant_cluster',
    ]),
    informational: true,
  },
  metric('tenant_network_egress_gb', 'Network egress GiB', 'gib', 'egress_gb', [
    'region',
    'tenant_cluster',
    'tenant_class',
  ]),
  metric('tenant_lb_hours', 'Load balancer hours', 'hours', 'lb_hours', [
    'region',
    'tenant_cluster',
    'tenant_class',
  ]),
  metric('tenant_private_node_hours', 'Private node hours', 'node-hours', 'private_node_hours', [
    'region',
    'sku',
    'capacity_type',
    'billing_mode',
    'tenant_cluster',
    'tenant_class',
    'instance_type',
  ]),
  {
    ...metric(
      'tenant_gpu_downtime_hours',
      'GPU downtime hours',
      'gpu-hours',
      'gpu_downtime_hours',
      ['region', 'sku', 'gpu_type', 'tenant_cluster', 'node'],
    ),
    informational: true,
  },
];

function metric(
  code: string,
  name: string,
  unit: string,
  aggregationField: string,
  dimensions: readonly string[],
): MetricDefinition {
  const description = `${name} of a tenant cluster, measured over closed windows`;
  return {
    code,
    name,
    unit,
    description,
    aggregationField,
    source: 'collector',
    informational: false,
    dimensions,
  };
}

/** A metric declared in CUSTOM_METRICS: `code:unit[:key|key]`. */
export interface CustomMetric {
  readonly code: string;
  readonly unit: string;
  readonly dimensions: readonly string[];
}

/** Every metric the service knows, in a stable order: the collector's first. */
export interface Catalog {
  readonly metrics: readonly MetricDefinition[];
  find(code: string): MetricDefinition | undefined;
}

export type CatalogOutcome =
  | { readonly kind: 'catalog'; readonly catalog: Catalog }
  /** Every problem at once, each `what: where: "input"`. */
  | { readonly kind: 'invalid'; readonly problems: readonly string[] };

/**
 * The catalogue of the collector's metrics, those of CUSTOM_METRICS and those of the Prometheus
 * metrics file. A code that is taken is an error: two metrics of one code would be billed as one.
 */
export function buildCatalog(
  custom: readonly CustomMetric[],
  prometheus: readonly MetricDefinition[] = [],
): CatalogOutcome {
  const byCode = new Map(COLLECTOR_METRICS.map((metric) => [metric.code, metric]));
  const problems: string[] = [];
  for (const metric of [...custom.map(customMetric), ...prometheus]) {
    const taken = byCode.get(metric.code);
    if (taken === undefined) byCode.set(metric.code, metric);
    else problems.push(collision(metric, taken));
  }
  if (problems.length > 0) return { kind: 'invalid', problems };
  const metrics = [...byCode.values()];
  return { kind: 'catalog', catalog: { metrics, find: (code) => byCode.get(code) } };
}

const SOURCE_SETTING: Readonly<Record<MetricSource, string>> = {
  collector: 'the collector',
  custom: 'CUSTOM_METRICS',
  prometheus: 'PROMETHEUS_METRICS_FILE',
};

function collision(metric: MetricDefinition, taken: MetricDefinition): string {
  const where = SOURCE_SETTING[metric.source];
  return `metric code already used by ${SOURCE_SETTING[taken.source]}: ${where}: "${metric.code}"`;
}

function customMetric({ code, unit, dimensions }: CustomMetric): MetricDefinition {
  return {
    code,
    name: code,
    unit,
    description: `Declared in CUSTOM_METRICS, pushed in through the API`,
    aggregationField: code,
    source: 'custom',
    informational: false,
    dimensions,
  };
}
