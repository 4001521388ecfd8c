import { DRA_NODE } from './nodes.ts';

/** Resource requests of a container; extended resources get equal limits. */
export type Requests = Readonly<Record<string, string>>;

export interface SimulatedPod {
  /** Inside the tenant cluster. */
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly requests: Requests;
  /** GPUs that a resource claim gives it. */
  readonly devices?: readonly string[];
}

export interface SimulatedClaim {
  readonly name: string;
  readonly storageClass: string;
  readonly size: string;
}

/** Pods that come and go: new ones begin at random intervals and live for a random time. */
export interface Churn {
  readonly name: string;
  readonly node: string;
  readonly requests: Requests;
  /** Mean milliseconds between two starts. */
  readonly everyMs: number;
  readonly lifetimeMs: readonly [shortest: number, longest: number];
  /** Each pod gets a namespace of its own inside the tenant cluster, so that its usage can be told apart. */
  readonly ownNamespace: boolean;
}

export interface SimulatedTenantCluster {
  readonly name: string;
  /** Host namespace. */
  readonly namespace: string;
  readonly kind: 'StatefulSet' | 'Deployment';
  readonly app: 'vcluster' | 'tenant-cluster';
  /** Of the host namespace. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The platform's instance that points here. */
  readonly instance?: {
    readonly name: string;
    readonly project: string;
    readonly displayName: string;
  };
  /** Whom its usage is billed to with the default configuration. */
  readonly tenant: string;
  readonly pods: readonly SimulatedPod[];
  readonly claims: readonly SimulatedClaim[];
  readonly loadBalancers: readonly string[];
  readonly churn?: Churn;
}

/**
 * 3.6 cores for one second are 0.001 core-hours: whole seconds then show as whole thousandths, with
 * nothing lost to rounding.
 */
export const BURST_REQUESTS: Requests = { cpu: '3600m', memory: '1Gi' };

/**
 * A small GPU cloud. Shapes: two tenant clusters in one namespace, one as a Deployment; one that the
 * platform knows; one whose pods come and go every few seconds; one with the specification's own
 * label; one with a node to itself; one of a tenant that pays beforehand.
 */
export const TENANT_CLUSTERS: readonly SimulatedTenantCluster[] = [
  {
    name: 'blue',
    namespace: 'tenant-shared',
    kind: 'StatefulSet',
    app: 'vcluster',
    tenant: 'tenant-tenant-shared-blue',
    pods: [
      pod('api-0', 'default', 'cpu-1', { cpu: '500m', memory: '1Gi' }),
      pod('api-1', 'default', 'cpu-2', { cpu: '500m', memory: '1Gi' }),
      pod('inference', 'models', 'slice-1', { cpu: '2', memory: '8Gi', 'nvidia.com/gpu': '1' }),
      {
        ...pod('embeddings', 'models', DRA_NODE, { cpu: '2', memory: '8Gi' }),
        devices: ['gpu-3-mig-3g40gb-9-0'],
      },
    ],
    claims: [{ name: 'models', storageClass: 'fast-ssd', size: '200Gi' }],
    loadBalancers: ['api'],
    churn: {
      name: 'batch',
      node: 'cpu-1',
      requests: { cpu: '1', memory: '2Gi' },
      everyMs: 40_000,
      lifetimeMs: [30_000, 90_000],
      ownNamespace: false,
    },
  },
  {
    name: 'green',
    namespace: 'tenant-shared',
    kind: 'Deployment',
    app: 'vcluster',
    tenant: 'tenant-tenant-shared-green',
    pods: [
      pod('shop', 'default', 'cpu-1', { cpu: '250m', memory: '512Mi' }),
      pod('worker', 'jobs', 'cpu-2', { cpu: '2', memory: '4Gi' }),
    ],
    claims: [
      { name: 'orders', storageClass: 'standard', size: '50Gi' },
      { name: 'cache', storageClass: 'fast-ssd', size: '10Gi' },
    ],
    loadBalancers: ['shop', 'shop-admin'],
  },
  {
    name: 'ml-lab',
    namespace: 'loft-research-v-ml-lab',
    kind: 'StatefulSet',
    app: 'vcluster',
    instance: { name: 'ml-lab', project: 'research', displayName: 'Machine learning laboratory' },
    labels: { 'loft.sh/project': 'research', 'loft.sh/vcluster-instance-name': 'ml-lab' },
    tenant: 'tenant-loft-research-v-ml-lab-ml-lab',
    pods: [
      pod('notebook', 'default', 'mig-1', {
        cpu: '4',
        memory: '16Gi',
        'nvidia.com/mig-1g.10gb': '2',
      }),
      pod('tracking', 'default', 'cpu-1', { cpu: '500m', memory: '2Gi' }),
      {
        ...pod('finetune', 'default', DRA_NODE, { cpu: '16', memory: '128Gi' }),
        devices: ['gpu-0', 'gpu-1'],
      },
    ],
    claims: [{ name: 'datasets', storageClass: 'throughput-hdd', size: '2Ti' }],
    loadBalancers: ['notebook'],
    churn: {
      name: 'training',
      node: 'gpu-1',
      requests: { cpu: '8', memory: '64Gi', 'nvidia.com/gpu': '2' },
      everyMs: 25_000,
      lifetimeMs: [20_000, 60_000],
      ownNamespace: false,
    },
  },
  {
    name: 'burst',
    namespace: 'tenant-burst',
    kind: 'StatefulSet',
    app: 'vcluster',
    tenant: 'tenant-tenant-burst-burst',
    pods: [],
    claims: [{ name: 'scratch', storageClass: 'standard', size: '20Gi' }],
    loadBalancers: ['gateway'],
    churn: {
      name: 'job',
      node: 'cpu-2',
      requests: BURST_REQUESTS,
      everyMs: 2_500,
      lifetimeMs: [2_000, 9_000],
      ownNamespace: true,
    },
  },
  {
    name: 'web',
    namespace: 'tenant-web',
    kind: 'Deployment',
    app: 'tenant-cluster',
    annotations: {
      'meterfeed.io/tenant': 'acme',
      'meterfeed.io/display-name': 'Acme Corporation',
      'meterfeed.io/tenant-class': 'enterprise',
    },
    tenant: 'acme',
    pods: [
      pod('frontend', 'default', 'cpu-1', { cpu: '1', memory: '1Gi' }),
      pod('render', 'default', 'amd-1', { cpu: '4', memory: '32Gi', 'amd.com/gpu': '1' }),
    ],
    claims: [{ name: 'assets', storageClass: 'standard', size: '100Gi' }],
    loadBalancers: ['frontend'],
  },
  {
    name: 'studio',
    namespace: 'tenant-studio',
    kind: 'StatefulSet',
    app: 'vcluster',
    tenant: 'tenant-tenant-studio-studio',
    pods: [
      pod('render-farm', 'default', 'dedicated-1', {
        cpu: '32',
        memory: '256Gi',
        'nvidia.com/gpu': '4',
      }),
      pod('portal', 'default', 'cpu-2', { cpu: '250m', memory: '512Mi' }),
    ],
    claims: [{ name: 'projects', storageClass: 'fast-ssd', size: '500Gi' }],
    loadBalancers: ['portal'],
  },
  {
    name: 'trial',
    namespace: 'tenant-trial',
    kind: 'StatefulSet',
    app: 'vcluster',
    annotations: {
      'meterfeed.io/tenant': 'trial',
      'meterfeed.io/display-name': 'Trial customer',
    },
    tenant: 'trial',
    pods: [],
    claims: [{ name: 'notes', storageClass: 'standard', size: '10Gi' }],
    loadBalancers: ['notes'],
    // Two or three at a time, at most seven of the eight GPUs there.
    churn: {
      name: 'sample',
      node: 'amd-1',
      requests: { cpu: '2', memory: '16Gi', 'amd.com/gpu': '1' },
      everyMs: 10_000,
      lifetimeMs: [20_000, 30_000],
      ownNamespace: false,
    },
  },
];

/** The id that design section 7 gives a tenant cluster. */
export function tenantClusterId(cluster: SimulatedTenantCluster): string {
  return `tenant-${cluster.namespace}-${cluster.name}`;
}

function pod(name: string, namespace: string, node: string, requests: Requests): SimulatedPod {
  return { name, namespace, node, requests };
}
