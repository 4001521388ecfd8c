import { customMetrics } from '../parsers/custom-metrics.ts';
import { duration, windowSize } from '../parsers/durations.ts';
import {
  gpuResource,
  namespaceName,
  nodeLabelTemplate,
  qualifiedName,
  subdomain,
} from '../parsers/kubernetes-names.ts';
import { list } from '../parsers/lists.ts';
import { boolean, choice, integer } from '../parsers/scalars.ts';
import { queryTemplate } from '../query-template.ts';
import type { Setting, SettingTable } from './setting.ts';

/** Windows, and how usage is measured. */
export const METERING = {
  windowMs: {
    variable: 'COLLECTION_INTERVAL',
    meaning: 'The window size.',
    parser: windowSize(),
    default: '60s',
    fields: ['MeteringPolicy spec.collectionInterval'],
    test: 'operator/metering/windows/window-variables.test.ts',
  },
  settlingDelayMs: {
    meaning: 'Wait between a window’s end and its close, shorter than the window.',
    parser: duration('0s', '30s'),
    default: '3s',
    fields: ['MeteringPolicy spec.settlingDelay'],
    test: 'operator/metering/windows/window-variables.test.ts',
  },
  maxBackfillMs: {
    variable: 'MAX_BACKFILL',
    meaning: 'How far back the operator measures windows that it missed.',
    parser: duration('0s', '34d'),
    default: '6h',
    fields: ['MeteringPolicy spec.maxBackfill'],
    test: 'operator/metering/windows/window-variables.test.ts',
  },
  cpuMemoryBasis: {
    variable: 'CPU_MEMORY_BASIS',
    meaning: 'Bill CPU and memory by usage (metrics API), requests, or the greater.',
    parser: choice('usage', 'requests', 'max'),
    default: 'usage',
    fields: ['MeteringPolicy spec.cpuMemoryBasis', 'TenantOverride spec.metering.cpuMemoryBasis'],
    test: 'operator/discovery/overrides.test.ts',
  },
  podLifetime: {
    meaning: 'A pod’s bill begins with its first container start, or with its binding to a node.',
    parser: choice('running', 'scheduled'),
    default: 'running',
    fields: ['MeteringPolicy spec.podLifetime', 'TenantOverride spec.metering.podLifetime'],
    test: 'operator/metering/meters/requests.test.ts',
  },
  meterControlPlane: {
    variable: 'METER_CONTROL_PLANE',
    meaning: 'Bill what control planes of tenant clusters use, beside instance hours.',
    parser: boolean(),
    default: 'false',
    fields: [
      'MeteringPolicy spec.meterControlPlane',
      'TenantOverride spec.metering.meterControlPlane',
    ],
    test: 'operator/metering/meters/requests.test.ts',
  },
  meterByNamespace: {
    variable: 'METER_BY_NAMESPACE',
    meaning: 'Split events by the namespace inside the tenant cluster.',
    parser: boolean(),
    default: 'false',
    fields: [
      'MeteringPolicy spec.meterByNamespace',
      'TenantOverride spec.metering.meterByNamespace',
    ],
    test: 'operator/metering/meters/requests.test.ts',
  },
  meterByQueue: {
    meaning: 'Split CPU, memory and GPU events by the queue of Kueue or KAI.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.meterByQueue', 'TenantOverride spec.metering.meterByQueue'],
    test: 'operator/metering/meters/queues.test.ts',
  },
  gpuQuantity: {
    meaning: 'A share of a GPU counts as its share, or as one device.',
    parser: choice('equivalents', 'devices'),
    default: 'equivalents',
    fields: ['MeteringPolicy spec.gpuQuantity'],
    test: 'operator/metering/meters/gpu-quantity.test.ts',
  },
  watchDeletions: {
    variable: 'WATCH_DELETIONS',
    meaning:
      'Bill deleted pods and nodes to the moment of deletion. Otherwise to the window end before.',
    parser: boolean(),
    default: 'true',
    fields: ['MeteringPolicy spec.watchDeletions'],
    test: 'operator/metering/meters/events.test.ts',
  },
  customMetrics: {
    variable: 'CUSTOM_METRICS',
    meaning: 'Your own metrics for `POST /api/v1/events`.',
    parser: customMetrics(),
    default: 'none',
    fields: ['MeteringPolicy spec.customMetrics'],
    test: 'operator/app/metering.test.ts',
  },
  gpuResources: {
    variable: 'GPU_RESOURCES',
    meaning: 'Extended resources that count as full GPUs.',
    parser: list(gpuResource()),
    default: 'nvidia.com/gpu,amd.com/gpu',
    fields: ['MeteringPolicy spec.gpuResources'],
    test: 'operator/metering/meters/gpu-hours.test.ts',
  },
  draGpuDrivers: {
    variable: 'DRA_GPU_DRIVERS',
    meaning: 'DRA drivers whose devices count as GPUs.',
    parser: list(subdomain('driver name', 'gpu.nvidia.com')),
    default: 'gpu.nvidia.com,gpu.amd.com',
    fields: ['MeteringPolicy spec.draGpuDrivers'],
    test: 'operator/metering/meters/claims.test.ts',
  },
  unhealthyNodeTaints: {
    variable: 'UNHEALTHY_NODE_TAINTS',
    meaning: 'Taints that mark a node as down.',
    parser: list(qualifiedName('taint key', 'node.kubernetes.io/not-ready')),
    default: 'node.kubernetes.io/not-ready,node.kubernetes.io/unreachable',
    fields: ['MeteringPolicy spec.unhealthyNodeTaints'],
    test: 'operator/metering/meters/gpu-downtime.test.ts',
  },
  skuLabel: {
    variable: 'SKU_LABEL',
    meaning: 'Node label with the SKU of a node and its GPUs.',
    parser: qualifiedName('label key', 'example.com/sku'),
    fields: ['MeteringPolicy spec.skuLabel'],
    test: 'operator/metering/meters/gpu-hours.test.ts',
  },
  capacityTypeLabel: {
    variable: 'CAPACITY_TYPE_LABEL',
    meaning: 'Node label with the capacity type, before those of cloud providers.',
    parser: qualifiedName('label key', 'meterfeed.io/capacity-type'),
    otherwise: '`<LABEL_PREFIX>/capacity-type`',
    fields: ['MeteringPolicy spec.capacityTypeLabel'],
    test: 'operator/metering/timelines/capacity-type.test.ts',
  },
  dedicatedNodeLabel: {
    variable: 'VCLUSTER_NODE_LABEL',
    meaning: 'Another label of dedicated nodes; `%s` is the tenant cluster’s name.',
    parser: nodeLabelTemplate(),
    fields: ['MeteringPolicy spec.dedicatedNodeLabel'],
    test: 'operator/metering/meters/dedicated-nodes.test.ts',
  },
  privateNodeBilling: {
    variable: 'PRIVATE_NODE_BILLING',
    meaning: 'Bill private nodes whole, or the pods on them.',
    parser: choice('node', 'usage'),
    default: 'node',
    fields: [
      'MeteringPolicy spec.privateNodeBilling',
      'TenantOverride spec.metering.privateNodeBilling',
    ],
    test: 'operator/metering/meters/private-nodes.test.ts',
  },
  privateNodeTrust: {
    meaning:
      'Which source counts for private nodes: the tenant cluster’s API, or the provider’s records of machines (docs/explanation/nodes.md#whom-to-trust-about-nodes).',
    parser: choice('tenant', 'provider'),
    default: 'tenant',
    fields: [
      'MeteringPolicy spec.privateNodeTrust',
      'TenantOverride spec.metering.privateNodeTrust',
    ],
    test: 'operator/metering/meters/private-node-trust.test.ts',
  },
  privateNodeDowntimePercent: {
    meaning: 'Alert if private nodes report more downtime in a day; 100 never alerts.',
    parser: integer(0, 100),
    default: '10',
    fields: ['MeteringPolicy spec.privateNodeDowntimePercent'],
    test: 'operator/metering/windows/private-node-watch.test.ts',
  },
  maxPrivateNodes: {
    meaning:
      'Most private nodes of a tenant cluster that a window bills (docs/explanation/nodes.md#more-private-nodes-than-are-billed).',
    parser: integer(0, 20_000),
    default: '1000',
    fields: ['MeteringPolicy spec.maxPrivateNodes', 'TenantOverride spec.metering.maxPrivateNodes'],
    test: 'operator/metering/windows/many-private-nodes.test.ts',
  },
  excludeNamespaces: {
    variable: 'TENANT_EXCLUDE_NAMESPACES',
    meaning: 'Namespaces inside tenant clusters whose pods are free.',
    parser: list(namespaceName()),
    default: 'kube-system',
    fields: [
      'MeteringPolicy spec.excludeNamespaces',
      'TenantOverride spec.metering.excludeNamespaces',
    ],
    test: 'operator/metering/meters/private-nodes.test.ts',
  },
  egressQuery: {
    variable: 'EGRESS_QUERY',
    meaning: 'Replaces the query for egress bytes.',
    parser: queryTemplate(),
    otherwise: 'increase of the transmitted-bytes counter',
    fields: ['MeteringPolicy spec.egressQuery', 'TenantOverride spec.metering.egressQuery'],
    test: 'operator/prometheus/prometheus-metering.test.ts',
  },
  gpuUtilQuery: {
    variable: 'GPU_UTIL_QUERY',
    meaning: 'Replaces the query for GPU utilization, by model name or gpu_type.',
    parser: queryTemplate(),
    otherwise: 'GPU telemetry',
    fields: ['MeteringPolicy spec.gpuUtilQuery', 'TenantOverride spec.metering.gpuUtilQuery'],
    test: 'operator/prometheus/prometheus-metering.test.ts',
  },
  gpuCountQuery: {
    variable: 'GPU_COUNT_QUERY',
    meaning: 'Replaces the query for the number of GPUs that utilization covers.',
    parser: queryTemplate(),
    otherwise: 'GPU telemetry',
    fields: ['MeteringPolicy spec.gpuCountQuery', 'TenantOverride spec.metering.gpuCountQuery'],
    test: 'operator/prometheus/measures.test.ts',
  },
} as const satisfies SettingTable;

const OVERRIDDEN = 'TenantOverride spec.metering.';

/** The keys of {@link TenantMeteringSettings}. */
export const TENANT_METERING: ReadonlySet<string> = new Set([
  ...Object.entries<Setting>(METERING)
    .filter(([, { fields = [] }]) => fields.some((field) => field.startsWith(OVERRIDDEN)))
    .map(([key]) => key),
  'gpuQuantity',
  'privateNodeLabels',
]);
