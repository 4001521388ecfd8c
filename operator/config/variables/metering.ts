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
import type { Variable } from './variable.ts';

/** Windows, and what is measured in them. */
export const METERING_VARIABLES = {
  COLLECTION_INTERVAL: {
    meaning: 'The window size. Windows are aligned to multiples of it since the Unix epoch.',
    parser: windowSize(),
    default: '60s',
    fields: ['MeteringPolicy spec.collectionInterval'],
    test: 'operator/windows/window-variables.test.ts',
  },
  SETTLING_DELAY: {
    meaning:
      'How long after its end a window is closed, so that late news of the cluster still counts; shorter than the window.',
    parser: duration('0s', '30s'),
    default: '3s',
    fields: ['MeteringPolicy spec.settlingDelay'],
    test: 'operator/windows/window-variables.test.ts',
  },
  MAX_BACKFILL: {
    meaning: 'How far back windows missed during a downtime are made up for.',
    parser: duration('0s', '34d'),
    default: '6h',
    fields: ['MeteringPolicy spec.maxBackfill'],
    test: 'operator/windows/window-variables.test.ts',
  },
  CPU_MEMORY_BASIS: {
    meaning:
      'What CPU and memory are billed by: usage from the metrics API, requests, or the greater of both.',
    parser: choice('usage', 'requests', 'max'),
    default: 'usage',
    fields: ['MeteringPolicy spec.cpuMemoryBasis', 'TenantOverride spec.metering.cpuMemoryBasis'],
    test: 'operator/discovery/overrides.test.ts',
  },
  POD_LIFETIME: {
    meaning:
      'From when on a pod is billed: `running` from the first start of any of its containers, `scheduled` from its binding to a node.',
    parser: choice('running', 'scheduled'),
    default: 'running',
    fields: ['MeteringPolicy spec.podLifetime', 'TenantOverride spec.metering.podLifetime'],
    test: 'operator/metering/requests.test.ts',
  },
  METER_CONTROL_PLANE: {
    meaning:
      'Bill pods, volumes and load balancers of the tenant clusters’ control planes; instance hours normally cover them.',
    parser: boolean(),
    default: 'false',
    fields: [
      'MeteringPolicy spec.meterControlPlane',
      'TenantOverride spec.metering.meterControlPlane',
    ],
    test: 'operator/metering/requests.test.ts',
  },
  METER_BY_NAMESPACE: {
    meaning:
      'Split CPU, memory, GPU, storage and load balancer events by the namespace inside the tenant cluster.',
    parser: boolean(),
    default: 'false',
    fields: [
      'MeteringPolicy spec.meterByNamespace',
      'TenantOverride spec.metering.meterByNamespace',
    ],
    test: 'operator/metering/requests.test.ts',
  },
  METER_BY_QUEUE: {
    meaning: 'Split CPU, memory and GPU events by the queue of Kueue or KAI that let the pod in.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.meterByQueue', 'TenantOverride spec.metering.meterByQueue'],
    test: 'operator/metering/queues.test.ts',
  },
  GPU_QUANTITY: {
    meaning:
      'What GPU hours of pods and resource claims count: GPU-equivalents, a share of a GPU being that share, or devices, each share being one.',
    parser: choice('equivalents', 'devices'),
    default: 'equivalents',
    fields: ['MeteringPolicy spec.gpuQuantity'],
    test: 'operator/metering/gpu-quantity.test.ts',
  },
  WATCH_DELETIONS: {
    meaning:
      'Bill pods and nodes that are deleted within a window to the moment of their deletion; otherwise to the last window end at which they were present.',
    parser: boolean(),
    default: 'true',
    fields: ['MeteringPolicy spec.watchDeletions'],
    test: 'operator/metering/events.test.ts',
  },
  CUSTOM_METRICS: {
    meaning: 'Metrics of your own that may be pushed in through `POST /api/v1/events`.',
    parser: customMetrics(),
    default: 'none',
    fields: ['MeteringPolicy spec.customMetrics'],
    test: 'operator/wiring/metering.test.ts',
  },
  GPU_RESOURCES: {
    meaning: 'Extended resources of which one is a full GPU.',
    parser: list(gpuResource()),
    default: 'nvidia.com/gpu,amd.com/gpu',
    fields: ['MeteringPolicy spec.gpuResources'],
    test: 'operator/metering/gpu-hours.test.ts',
  },
  DRA_GPU_DRIVERS: {
    meaning: 'DRA drivers whose devices are metered as GPUs.',
    parser: list(subdomain('driver name', 'gpu.nvidia.com')),
    default: 'gpu.nvidia.com,gpu.amd.com',
    fields: ['MeteringPolicy spec.draGpuDrivers'],
    test: 'operator/metering/claims.test.ts',
  },
  UNHEALTHY_NODE_TAINTS: {
    meaning: 'Taints that mark a node as down.',
    parser: list(qualifiedName('taint key', 'node.kubernetes.io/not-ready')),
    default: 'node.kubernetes.io/not-ready,node.kubernetes.io/unreachable',
    fields: ['MeteringPolicy spec.unhealthyNodeTaints'],
    test: 'operator/metering/gpu-downtime.test.ts',
  },
  VCLUSTER_NODE_LABEL: {
    meaning:
      'A further selector of dedicated nodes; `%s` stands for the name of the tenant cluster.',
    parser: nodeLabelTemplate(),
    fields: ['MeteringPolicy spec.dedicatedNodeLabel'],
    test: 'operator/metering/dedicated-nodes.test.ts',
  },
  PRIVATE_NODE_BILLING: {
    meaning: 'Bill own nodes of tenant clusters whole, or the pods on them.',
    parser: choice('node', 'usage'),
    default: 'node',
    fields: [
      'MeteringPolicy spec.privateNodeBilling',
      'TenantOverride spec.metering.privateNodeBilling',
    ],
    test: 'operator/metering/own-nodes.test.ts',
  },
  OWN_NODE_TRUST: {
    meaning:
      'Whose word counts about own nodes of tenant clusters: what their own API says, or what the provider’s records of the machines say, and the dearest reading where there is none (docs/metering.md#whose-word-counts).',
    parser: choice('tenant', 'provider'),
    default: 'tenant',
    fields: ['MeteringPolicy spec.ownNodeTrust', 'TenantOverride spec.metering.ownNodeTrust'],
    test: 'operator/metering/own-node-trust.test.ts',
  },
  OWN_NODE_DOWNTIME_PERCENT: {
    meaning:
      'Alert where the own nodes of a tenant cluster say that they were down for more than this percentage of the last day; 100 never alerts.',
    parser: integer(0, 100),
    default: '10',
    fields: ['MeteringPolicy spec.ownNodeDowntimePercent'],
    test: 'operator/windows/own-node-watch.test.ts',
  },
  MAX_OWN_NODES: {
    meaning:
      'Own nodes of one tenant cluster that a window bills; those beyond are held and shown (docs/metering.md#more-own-nodes-than-are-billed).',
    parser: integer(0, 20_000),
    default: '1000',
    fields: ['MeteringPolicy spec.maxOwnNodes', 'TenantOverride spec.metering.maxOwnNodes'],
    test: 'operator/windows/many-own-nodes.test.ts',
  },
  TENANT_EXCLUDE_NAMESPACES: {
    meaning: 'Namespaces inside tenant clusters whose pods are free when pods are billed.',
    parser: list(namespaceName()),
    default: 'kube-system',
    fields: [
      'MeteringPolicy spec.excludeNamespaces',
      'TenantOverride spec.metering.excludeNamespaces',
    ],
    test: 'operator/metering/own-nodes.test.ts',
  },
} as const satisfies Record<string, Variable>;
