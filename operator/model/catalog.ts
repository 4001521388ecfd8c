/** Where events of a metric come from. */
export type MetricSource = 'collector' | 'ingest' | 'custom' | 'prometheus';

/** One metric the service knows (`GET /api/v1/catalog`). */
export interface MetricDefinition {
  /** `^[a-z][a-z0-9_]{0,99}$` */
  readonly code: string;
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  /** The property that billing systems sum. */
  readonly aggregationField: string;
  readonly source: MetricSource;
  /** Informational metrics are not billed. A destination receives them only by configuration. */
  readonly informational: boolean;
  /** Keys by which a billing system may split the metric. */
  readonly dimensions: readonly string[];
  /** The dimensions that prices commonly depend on, for billing systems that allow few. */
  readonly priceKeys?: readonly string[];
}

/** The rule behind a metric's numbers, for explanations. */
export interface MeteringRule {
  readonly text: string;
  /** The page that explains the rule completely. */
  readonly documentation: string;
}

/**
 * A metric that the collector measures on objects of a cluster.
 * `operator/metering/meters/meters.ts` has its meters.
 */
interface MeasuredMetricEntry {
  readonly code: `tenant_${string}`;
  readonly name: string;
  readonly unit: string;
  readonly aggregationField: string;
  readonly informational?: true;
  readonly dimensions: readonly string[];
  readonly priceKeys: readonly string[];
  readonly rule: MeteringRule;
}

/** A metric that is queried from Prometheus. */
type QueriedMetric = Omit<MeasuredMetricEntry, 'rule'>;

const POD_KEYS = [
  'region',
  'capacity_type',
  'billing_mode',
  'tenant_cluster',
  'tenant_class',
] as const;
const NODE_KEYS = [
  'region',
  'sku',
  'capacity_type',
  'billing_mode',
  'tenant_cluster',
  'tenant_class',
] as const;
const CLUSTER_KEYS = ['region', 'tenant_cluster', 'tenant_class'] as const;

const PODS =
  'For each pod on a shared node that is up, from the first start of a container to the last finish';

/** The operator's own metrics; see docs/explanation/metering.md#dimensions-and-properties. */
const METRICS = [
  {
    code: 'tenant_cpu_core_hours',
    name: 'CPU core hours',
    unit: 'core-hours',
    aggregationField: 'cpu_core_hours',
    dimensions: POD_KEYS,
    priceKeys: ['region', 'capacity_type', 'billing_mode'],
    rule: {
      text: `${PODS}: cores (of the basis that the property "basis" names) × hours. A node that is billed whole: its cores × hours.`,
      documentation: 'docs/explanation/metering.md#lifetimes-not-samples',
    },
  },
  {
    code: 'tenant_memory_gb_hours',
    name: 'Memory GiB hours',
    unit: 'gib-hours',
    aggregationField: 'memory_gb_hours',
    dimensions: POD_KEYS,
    priceKeys: ['region', 'capacity_type', 'billing_mode'],
    rule: {
      text: `${PODS}: GiB (of the basis that the property "basis" names) × hours. A node that is billed whole: its GiB × hours.`,
      documentation: 'docs/explanation/metering.md#lifetimes-not-samples',
    },
  },
  {
    code: 'tenant_storage_gb_hours',
    name: 'Storage GiB hours',
    unit: 'gib-hours',
    aggregationField: 'storage_gb_hours',
    dimensions: ['region', 'sku', 'tenant_cluster', 'tenant_class'],
    priceKeys: ['region', 'sku'],
    rule: {
      text: 'For each volume claim while it is Bound: GiB provisioned × hours, mounted or not.',
      documentation: 'docs/explanation/metering.md#lifetimes-not-samples',
    },
  },
  {
    code: 'tenant_instance_hours',
    name: 'Tenant cluster instance hours',
    unit: 'hours',
    aggregationField: 'instance_hours',
    dimensions: CLUSTER_KEYS,
    priceKeys: ['region', 'tenant_class'],
    rule: {
      text: 'One for each hour in which at least one control plane replica of the tenant cluster was ready; workloads that are ready at the same time count once.',
      documentation: 'docs/explanation/metering.md#lifetimes-not-samples',
    },
  },
  {
    code: 'tenant_gpu_hours',
    name: 'GPU hours',
    unit: 'gpu-hours',
    aggregationField: 'gpu_hours',
    dimensions: [...NODE_KEYS, 'gpu_type', 'gpu_profile'],
    priceKeys: ['region', 'sku', 'capacity_type', 'billing_mode'],
    rule: {
      text: `${PODS}, or for each resource claim while a pod uses it: GPU-equivalents × hours, or devices × hours where "counted_as" says devices. A node that is billed whole: its physical GPUs that can be allocated × hours.`,
      documentation: 'docs/explanation/gpus.md#gpu-quantity',
    },
  },
  {
    code: 'tenant_gpu_utilization',
    name: 'GPU utilization',
    unit: 'util-hours',
    aggregationField: 'gpu_util_score',
    informational: true,
    dimensions: ['region', 'gpu_type', 'tenant_cluster'],
    priceKeys: ['region', 'gpu_type'],
  },
  {
    code: 'tenant_network_egress_gb',
    name: 'Network egress GiB',
    unit: 'gib',
    aggregationField: 'egress_gb',
    dimensions: CLUSTER_KEYS,
    priceKeys: ['region'],
  },
  {
    code: 'tenant_lb_hours',
    name: 'Load balancer hours',
    unit: 'hours',
    aggregationField: 'lb_hours',
    dimensions: CLUSTER_KEYS,
    priceKeys: ['region'],
    rule: {
      text: 'One for each hour of each Service of type LoadBalancer while it has an ingress address.',
      documentation: 'docs/explanation/metering.md#lifetimes-not-samples',
    },
  },
  {
    code: 'tenant_private_node_hours',
    name: 'Private node hours',
    unit: 'node-hours',
    aggregationField: 'private_node_hours',
    dimensions: [...NODE_KEYS, 'instance_type'],
    priceKeys: ['region', 'sku', 'capacity_type'],
    rule: {
      text: 'One for each hour of a node that is billed whole, from its creation to its deletion, but for the time that it was down.',
      documentation: 'docs/explanation/nodes.md#whole-nodes',
    },
  },
  {
    code: 'tenant_gpu_downtime_hours',
    name: 'GPU downtime hours',
    unit: 'gpu-hours',
    aggregationField: 'gpu_downtime_hours',
    informational: true,
    dimensions: ['region', 'sku', 'gpu_type', 'tenant_cluster', 'node'],
    priceKeys: ['region', 'gpu_type'],
    rule: {
      text: 'GPU-equivalents (devices where "counted_as" says so) × hours during which a node was down, or GPUs of a node that is billed whole could not be allocated. Informational: charged nowhere.',
      documentation: 'docs/explanation/nodes.md#downtime',
    },
  },
] as const satisfies readonly (MeasuredMetricEntry | QueriedMetric)[];

const TOKEN_KEYS = ['model', 'provider', 'token_type', 'context_tier', 'service_tier'] as const;

/** Metrics of AI gateways' events; see docs/how-to/ai-gateways.md#metrics. */
export const INGEST_METRICS = [
  {
    code: 'tenant_inference_tokens',
    name: 'Inference tokens',
    unit: 'tokens',
    description: 'Tokens of the requests that AI gateways report, by model and kind of token',
    aggregationField: 'tokens',
    source: 'ingest',
    informational: false,
    dimensions: TOKEN_KEYS,
    priceKeys: TOKEN_KEYS,
  },
  {
    code: 'tenant_inference_requests',
    name: 'Inference requests',
    unit: 'requests',
    description: 'Requests with tokens that AI gateways report, by model',
    aggregationField: 'requests',
    source: 'ingest',
    informational: false,
    dimensions: TOKEN_KEYS.filter((key) => key !== 'token_type'),
    priceKeys: TOKEN_KEYS.filter((key) => key !== 'token_type'),
  },
] as const satisfies readonly MetricDefinition[];

/** The codes of the metrics that the collector measures on objects of a cluster. */
export type CollectorMetric = Extract<
  (typeof METRICS)[number],
  { readonly rule: MeteringRule }
>['code'];

/** The metrics that the operator measures, including those that it queries from Prometheus. */
export const COLLECTOR_METRICS: readonly MetricDefinition[] = METRICS.map((metric) => ({
  code: metric.code,
  name: metric.name,
  unit: metric.unit,
  description: `${metric.name} of a tenant cluster, measured over closed windows`,
  aggregationField: metric.aggregationField,
  source: 'collector',
  informational: 'informational' in metric,
  dimensions: metric.dimensions,
  priceKeys: metric.priceKeys,
}));

/** The metrics that every catalogue has: measured ones, then those of AI gateways. */
export const BUILT_IN_METRICS: readonly MetricDefinition[] = [
  ...COLLECTOR_METRICS,
  ...INGEST_METRICS,
];

/**
 * Whether the operator measures a metric itself. Usage of all others comes from senders. An unknown
 * metric counts as measured, so that nobody pushes it.
 */
export function isMeasured(metric: MetricDefinition | undefined): boolean {
  return metric?.source !== 'custom' && metric?.source !== 'ingest';
}

const BY_CODE: ReadonlyMap<string, MeasuredMetricEntry | QueriedMetric> = new Map(
  METRICS.map((metric) => [metric.code, metric]),
);

const QUERIED: MeteringRule = {
  text: 'The answer of the configured Prometheus query at the end of the window; nothing of it is measured on objects.',
  documentation: 'docs/explanation/prometheus.md#measured-by-prometheus',
};

/**
 * The rule of one of the operator's own metrics. Other metrics share the rule of metrics that are
 * queried from Prometheus.
 */
export function meteringRule(metric: string): MeteringRule {
  const known = BY_CODE.get(metric);
  return known !== undefined && 'rule' in known ? known.rule : QUERIED;
}

/** A metric declared in CUSTOM_METRICS: `code:unit[:key|key]`. */
export interface CustomMetric {
  readonly code: string;
  readonly unit: string;
  readonly dimensions: readonly string[];
}

/** Allowed on events of any metric, whatever it declares (docs/reference/events.md#dimensions). */
const GENERAL_DIMENSIONS: ReadonlySet<string> = new Set([
  'tenant_cluster',
  'tenant_class',
  'zone',
  'namespace',
  'capacity_type',
  'billing_mode',
]);

/** Whether events of any metric may carry the dimension. */
export function isGeneralDimension(key: string): boolean {
  return GENERAL_DIMENSIONS.has(key);
}

/** Every known metric in a stable order: built-in ones first. */
export interface Catalog {
  readonly metrics: readonly MetricDefinition[];
  find(code: string): MetricDefinition | undefined;
}

/** Returns the catalogue of the metrics with their codes as keys. */
export function catalogOf(byCode: ReadonlyMap<string, MetricDefinition>): Catalog {
  return { metrics: [...byCode.values()], find: (code) => byCode.get(code) };
}

export type CatalogOutcome =
  | { readonly kind: 'catalog'; readonly catalog: Catalog }
  /** All problems, each `what: where: "input"`. */
  | { readonly kind: 'invalid'; readonly problems: readonly string[] };

/** The catalogue without configured metrics. */
export const BUILT_IN_CATALOG = catalogOf(
  new Map(BUILT_IN_METRICS.map((metric) => [metric.code, metric])),
);

/**
 * Builds the catalogue of the built-in metrics, CUSTOM_METRICS and the Prometheus metrics
 * file. A code that is used twice is an error, because two metrics with one code would be billed as
 * one.
 */
export function buildCatalog(
  custom: readonly CustomMetric[],
  prometheus: readonly MetricDefinition[] = [],
): CatalogOutcome {
  const byCode = new Map(BUILT_IN_CATALOG.metrics.map((metric) => [metric.code, metric]));
  const problems: string[] = [];
  for (const metric of [...custom.map(customMetric), ...prometheus]) {
    const taken = byCode.get(metric.code);
    if (taken === undefined) byCode.set(metric.code, metric);
    else problems.push(collision(metric, taken));
  }
  if (problems.length > 0) return { kind: 'invalid', problems };
  return { kind: 'catalog', catalog: catalogOf(byCode) };
}

const SOURCE_SETTING: Readonly<Record<MetricSource, string>> = {
  collector: 'the collector',
  ingest: 'AI gateways',
  custom: 'CUSTOM_METRICS or spec.customMetrics',
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
    description: 'Declared in CUSTOM_METRICS or spec.customMetrics, pushed in through the API',
    aggregationField: code,
    source: 'custom',
    informational: false,
    dimensions,
  };
}
