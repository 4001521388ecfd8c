import type { RawObject } from '../../../operator/kubernetes/source.ts';
import {
  controlPlane,
  GPU_LABELS,
  kubeconfig,
  kubeconfigSecret,
  loadBalancer,
  node,
  pod,
  resourceClaim,
  resourceSlice,
  volumeClaim,
} from './objects.ts';

/** One object to be put: into which API server, where, and what. */
export interface Put {
  readonly api: string;
  readonly path: string;
  readonly object: RawObject;
}

/** What a tenant has to be billed for as long as something is there. */
export interface Charge {
  readonly tenant: string;
  readonly metric: string;
  /** Billionths of the metric's unit, for each hour. */
  readonly nanosPerHour: bigint;
  /** Milliseconds since the epoch; undefined for ever. */
  readonly from?: number;
  readonly to?: number;
  /** Where the tenant's bill is split by the namespace inside its cluster. */
  readonly namespace?: string;
}

export interface OwnApi {
  readonly name: string;
  readonly server: string;
  readonly authority: string;
  readonly token: string;
}

export interface Estate {
  readonly puts: readonly Put[];
  readonly charges: readonly Charge[];
  readonly tenants: readonly string[];
}

const HOST = 'host';
const NANOS = 1_000_000_000n;
const SHARED = ['honest-a', 'honest-b'] as const;
/** The tenant cluster whose pods come and go. */
export const BUSY = 'honest-busy';
const PRIVATE_NODES = ['honest-nodes', 'honest-pods'] as const;
export const OWN_APIS: readonly string[] = PRIVATE_NODES;
/** Who pays beforehand, and what its balance counts. */
export const PREPAID = { name: SHARED[0], metric: 'tenant_cpu_core_hours' } as const;
/** A tenant of the hostile party, which may look at its own usage. */
export const HOSTILE_READER = 'hostile-reader';

/** Who is given a namespace, and would like to pay for nothing in it. */
export const FORGER = 'forger';

const complete = (amount: number): bigint => BigInt(amount) * NANOS;

/** The id of the tenant cluster of a name, which is also who pays. */
export function tenantOf(name: string): string {
  return `tenant-${name}-${name}`;
}

export function managedBy(name: string, namespace = 'default'): Readonly<Record<string, string>> {
  return { 'vcluster.loft.sh/managed-by': name, 'vcluster.loft.sh/namespace': namespace };
}

/** A tenant cluster with its namespace and a ready control plane. */
export function tenantCluster(
  name: string,
  bornAt: number,
  annotations: Readonly<Record<string, string>> = {},
): readonly Put[] {
  return [
    {
      api: HOST,
      path: `/api/v1/namespaces/${name}`,
      object: { metadata: { annotations: { 'meterfeed.io/project': `project-of-${name}` } } },
    },
    {
      api: HOST,
      path: `/apis/apps/v1/namespaces/${name}/statefulsets/${name}`,
      object: controlPlane(bornAt, name, annotations),
    },
  ];
}

/** How a tenant cluster with nodes of its own is metered. */
export function override(name: string, metering: RawObject): Put {
  return overrideOf(name, { metering });
}

function overrideOf(name: string, spec: RawObject): Put {
  return {
    api: HOST,
    path: `/apis/meterfeed.io/v1alpha1/tenantoverrides/${name}`,
    object: {
      apiVersion: 'meterfeed.io/v1alpha1',
      kind: 'TenantOverride',
      metadata: { name, generation: 1 },
      spec: { match: { namespace: name, name }, ...spec },
    },
  };
}

/** Honest tenant clusters of every kind, with what each has to be billed an hour. */
export function honestEstate(bornAt: number, ownApis: readonly OwnApi[]): Estate {
  const parts = [
    ...SHARED.map((name) => sharedTenant(name, bornAt)),
    busyTenant(bornAt),
    forgerTenant(bornAt),
    ...ownApis.map((api) => ownTenant(api, bornAt)),
  ];
  const gpuNode = { cpu: '192', memory: '2Ti', pods: '250', 'nvidia.com/gpu': '8' };
  const puts: readonly Put[] = [
    { api: HOST, path: '/api/v1/nodes/host-gpu', object: node(bornAt, GPU_LABELS, gpuNode) },
    {
      api: HOST,
      path: '/api/v1/nodes/host-cpu',
      object: node(bornAt, {}, { cpu: '192', memory: '2Ti', pods: '250' }),
    },
    ...SHARED.flatMap((name): readonly Put[] => [
      {
        api: HOST,
        path: `/api/v1/nodes/dra-${name}`,
        object: node(bornAt, {}, { cpu: '64', memory: '1Ti', pods: '250' }),
      },
      {
        api: HOST,
        path: `/apis/resource.k8s.io/v1/resourceslices/dra-${name}`,
        object: resourceSlice(bornAt, `dra-${name}`, 8),
      },
    ]),
  ];
  return {
    puts: [...puts, ...parts.flatMap((part) => part.puts), ...readerPuts(bornAt)],
    charges: parts.flatMap((part) => part.charges),
    tenants: parts.flatMap((part) => part.tenants),
  };
}

function sharedTenant(name: string, bornAt: number): Estate {
  const tenant = tenantOf(name);
  const labels = managedBy(name);
  const put = (path: string, object: RawObject): Put => ({
    api: HOST,
    path: path.replace('~', `namespaces/${name}`),
    object,
  });
  const running = (
    at: string,
    requests: Readonly<Record<string, string>>,
    more: { readonly claim?: string } = {},
  ): RawObject => pod({ requests, node: at, labels, startedAt: bornAt, ...more });
  const user = { name: 'trainer', uid: `uid-pods-${name}-trainer` };
  return {
    tenants: [tenant],
    puts: [
      ...tenantCluster(name, bornAt),
      ...(name === PREPAID.name ? [prepaid(name)] : []),
      put('/api/v1/~/pods/web', running('host-cpu', { cpu: '500m', memory: '1Gi' })),
      put(
        '/api/v1/~/pods/gpu',
        running('host-gpu', { cpu: '4', memory: '16Gi', 'nvidia.com/gpu': '2' }),
      ),
      put(
        '/api/v1/~/pods/trainer',
        running(`dra-${name}`, { cpu: '2', memory: '8Gi' }, { claim: 'trainer' }),
      ),
      put(
        '/apis/resource.k8s.io/v1/~/resourceclaims/trainer',
        resourceClaim(bornAt, `dra-${name}`, user, labels),
      ),
      put('/api/v1/~/persistentvolumeclaims/data', volumeClaim(bornAt, '40Gi', labels)),
      put('/api/v1/~/services/front', loadBalancer(bornAt, labels)),
    ],
    charges: [
      { tenant, metric: 'tenant_instance_hours', nanosPerHour: complete(1) },
      { tenant, metric: 'tenant_cpu_core_hours', nanosPerHour: 6_500_000_000n },
      { tenant, metric: 'tenant_memory_gb_hours', nanosPerHour: complete(25) },
      { tenant, metric: 'tenant_gpu_hours', nanosPerHour: complete(3) },
      { tenant, metric: 'tenant_storage_gb_hours', nanosPerHour: complete(40) },
      { tenant, metric: 'tenant_lb_hours', nanosPerHour: complete(1) },
    ],
  };
}

/** Used up it would be suspended. */
function prepaid(name: string): Put {
  const { metric } = PREPAID;
  return overrideOf(name, {
    budget: { amount: '10', metric, period: 'prepaid', atLimit: 'suspend' },
  });
}

function busyTenant(bornAt: number): Estate {
  const tenant = tenantOf(BUSY);
  return {
    tenants: [tenant],
    puts: [...tenantCluster(BUSY, bornAt), override(BUSY, { meterByNamespace: true })],
    charges: [{ tenant, metric: 'tenant_instance_hours', nanosPerHour: complete(1) }],
  };
}

/** A Namespace that its administrator gives to a tenant; its pods carry labels of a control plane. */
function forgerTenant(bornAt: number): Estate {
  const labels = { app: 'vcluster', release: FORGER };
  const requests = { cpu: '4', memory: '16Gi', 'nvidia.com/gpu': '2' };
  const charge = (metric: string, amount: number): Charge => ({
    tenant: FORGER,
    metric,
    nanosPerHour: complete(amount),
  });
  return {
    tenants: [FORGER],
    puts: [
      {
        api: HOST,
        path: `/api/v1/namespaces/${FORGER}`,
        object: { metadata: { labels: { 'meterfeed.io/tenant': FORGER } } },
      },
      {
        api: HOST,
        path: `/api/v1/namespaces/${FORGER}/pods/work`,
        object: pod({ requests, node: 'host-gpu', labels, startedAt: bornAt }),
      },
    ],
    charges: [
      charge('tenant_cpu_core_hours', 4),
      charge('tenant_memory_gb_hours', 16),
      charge('tenant_gpu_hours', 2),
    ],
  };
}

/** Enough that there is something to read. */
function readerPuts(bornAt: number): readonly Put[] {
  const labels = managedBy(HOSTILE_READER);
  const requests = { cpu: '1', memory: '1Gi' };
  return [
    ...tenantCluster(HOSTILE_READER, bornAt),
    {
      api: HOST,
      path: `/api/v1/namespaces/${HOSTILE_READER}/pods/web`,
      object: pod({ requests, node: 'host-cpu', labels, startedAt: bornAt }),
    },
  ];
}

/** A pod of the busy tenant cluster that is there from one second to another, in a namespace of its own. */
export function job(
  number: number,
  startedAt: number,
  finishedAt: number | undefined,
): { readonly put: Put; readonly charges: readonly Charge[] } {
  const namespace = `job-${number}`;
  const requests = { cpu: '3600m', memory: '36Gi' };
  const labels = managedBy(BUSY, namespace);
  const object = pod({
    requests,
    node: 'host-cpu',
    labels,
    startedAt,
    finishedAt,
  });
  const charge = (metric: string, nanosPerHour: bigint): Charge => ({
    tenant: tenantOf(BUSY),
    metric,
    nanosPerHour,
    from: startedAt,
    namespace,
    to: finishedAt,
  });
  return {
    put: { api: HOST, path: `/api/v1/namespaces/${BUSY}/pods/${namespace}`, object },
    charges: [
      charge('tenant_cpu_core_hours', 3_600_000_000n),
      charge('tenant_memory_gb_hours', complete(36)),
    ],
  };
}

/** With two nodes of its own: billed whole, or by the pods on them. */
function ownTenant({ name, server, authority, token }: OwnApi, bornAt: number): Estate {
  const tenant = tenantOf(name);
  const resources = { cpu: '64', memory: '512Gi', pods: '250', 'nvidia.com/gpu': '8' };
  const byPods = name === 'honest-pods';
  const put = (path: string, object: RawObject): Put => ({ api: name, path, object });
  const requests = { cpu: '4', memory: '16Gi', 'nvidia.com/gpu': '1' };
  const secret = kubeconfigSecret(kubeconfig(server, authority, token));
  const charge = (metric: string, amount: number): Charge => ({
    tenant,
    metric,
    nanosPerHour: complete(amount),
  });
  return {
    tenants: [tenant],
    puts: [
      ...tenantCluster(name, bornAt),
      { api: HOST, path: `/api/v1/namespaces/${name}/secrets/svc-kubeconfig`, object: secret },
      ...(byPods ? [override(name, { privateNodeBilling: 'usage' })] : []),
      put(`/api/v1/nodes/${name}-1`, node(bornAt, GPU_LABELS, resources)),
      put(`/api/v1/nodes/${name}-2`, node(bornAt, GPU_LABELS, resources)),
      put(
        '/api/v1/namespaces/default/pods/work',
        pod({ requests, node: `${name}-1`, startedAt: bornAt }),
      ),
      put('/api/v1/namespaces/default/persistentvolumeclaims/data', volumeClaim(bornAt, '100Gi')),
      put('/api/v1/namespaces/default/services/front', loadBalancer(bornAt)),
    ],
    charges: [
      charge('tenant_instance_hours', 1),
      charge('tenant_storage_gb_hours', 100),
      charge('tenant_lb_hours', 1),
      charge('tenant_cpu_core_hours', byPods ? 4 : 128),
      charge('tenant_memory_gb_hours', byPods ? 16 : 1024),
      charge('tenant_gpu_hours', byPods ? 1 : 16),
      ...(byPods ? [] : [charge('tenant_private_node_hours', 2)]),
    ],
  };
}
