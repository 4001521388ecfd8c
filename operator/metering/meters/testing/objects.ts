import type { TenantCluster } from '../../../discovery/tenant-cluster.ts';
import type { RawObject } from '../../../kubernetes/source.ts';
import type { NodeSettings } from '../../timelines/node-state.ts';
import { START } from './times.ts';

/** Objects as the API server sends them, reduced to what the tests vary. */

export function iso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z');
}

/** Long before the first window. */
export const LONG_AGO = START - 24 * 3_600_000;

type Quantities = Readonly<Record<string, string | number>>;

export interface PodFixture {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly node?: string | null;
  readonly phase?: string;
  readonly containers?: readonly Quantities[];
  readonly init?: readonly (Quantities & { readonly sidecar?: never })[];
  readonly initContainers?: readonly RawObject[];
  readonly metadata?: RawObject;
  readonly spec?: RawObject;
  readonly status?: RawObject;
  readonly createdAt?: number;
  readonly startedAt?: number | null;
  readonly finishedAt?: number;
}

/** The default settings for nodes. */
export const NODE_SETTINGS: NodeSettings = {
  capacityTypeLabel: 'meterfeed.io/capacity-type',
  gpuResources: ['nvidia.com/gpu', 'amd.com/gpu'],
  unhealthyNodeTaints: ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'],
};

export const SYNCED_LABELS = {
  'vcluster.loft.sh/managed-by': 'a',
  'vcluster.loft.sh/namespace': 'default',
};

/** Labels of what belongs to the control plane of tenant cluster `a`. */
export const CONTROL_PLANE = { app: 'vcluster', release: 'a' };

/** The metadata of a pod that a StatefulSet, DaemonSet or ReplicaSet runs. */
export function ownedBy(name: string, kind = 'StatefulSet'): RawObject {
  const owner = { apiVersion: 'apps/v1', kind, name, uid: `uid-${name}`, controller: true };
  return { ownerReferences: [owner] };
}

/** A tenant pod on the host; by default it runs since long before the first window. */
export function pod(fixture: PodFixture): RawObject {
  const {
    name,
    createdAt = LONG_AGO,
    startedAt = createdAt,
    finishedAt,
    phase = 'Running',
  } = fixture;
  const containers = fixture.containers ?? [{}];
  const state =
    finishedAt === undefined
      ? { running: { startedAt: iso(startedAt ?? 0) } }
      : { terminated: { startedAt: iso(startedAt ?? 0), finishedAt: iso(finishedAt) } };
  const node = fixture.node === undefined ? 'n7' : fixture.node;
  return {
    metadata: {
      uid: `uid-${name}`,
      name,
      namespace: fixture.namespace ?? 'tenant-a',
      creationTimestamp: iso(createdAt),
      labels: fixture.labels ?? SYNCED_LABELS,
      ...fixture.metadata,
    },
    spec: {
      ...(node === null ? {} : { nodeName: node }),
      containers: containers.map((requests, index) => ({
        name: `c${index}`,
        resources: { requests },
      })),
      initContainers: fixture.initContainers,
      ...fixture.spec,
    },
    status: {
      phase,
      conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: iso(createdAt) }],
      ...(startedAt === null
        ? {}
        : { containerStatuses: containers.map((_, index) => ({ name: `c${index}`, state })) }),
      ...fixture.status,
    },
  };
}

export function node(name: string, labels: Readonly<Record<string, string>> = {}): RawObject {
  return { metadata: { uid: `uid-${name}`, name, creationTimestamp: iso(LONG_AGO), labels } };
}

export interface ClaimFixture {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly phase?: string;
  readonly request?: string;
  readonly capacity?: string;
  readonly storageClass?: string;
  readonly metadata?: RawObject;
  readonly status?: RawObject;
}

export function claim(fixture: ClaimFixture): RawObject {
  const { name, phase = 'Bound', request = '100Gi', capacity, storageClass } = fixture;
  return {
    metadata: {
      uid: `uid-${name}`,
      name,
      namespace: 'tenant-a',
      creationTimestamp: iso(LONG_AGO),
      labels: fixture.labels ?? SYNCED_LABELS,
      ...fixture.metadata,
    },
    spec: {
      resources: { requests: { storage: request } },
      storageClassName: storageClass,
    },
    status: {
      phase,
      ...(capacity === undefined ? {} : { capacity: { storage: capacity } }),
      ...fixture.status,
    },
  };
}

export interface ServiceFixture {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly type?: string;
  readonly ingress?: readonly RawObject[];
  readonly ports?: number;
  readonly spec?: RawObject;
}

export function service(fixture: ServiceFixture): RawObject {
  const { name, type = 'LoadBalancer', ingress = [{ ip: '192.0.2.1' }], ports = 1 } = fixture;
  return {
    metadata: {
      uid: `uid-${name}`,
      name,
      namespace: 'tenant-a',
      creationTimestamp: iso(LONG_AGO),
      labels: fixture.labels ?? SYNCED_LABELS,
    },
    spec: {
      type,
      ports: Array.from({ length: ports }, (_, index) => ({ port: 80 + index })),
      ...fixture.spec,
    },
    status: { loadBalancer: ingress.length === 0 ? {} : { ingress } },
  };
}

export interface WorkloadFixture {
  readonly name: string;
  readonly namespace?: string;
  readonly kind?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ready?: number;
}

export function workload(fixture: WorkloadFixture): RawObject {
  const { name, kind = 'StatefulSet', ready = 1 } = fixture;
  return {
    kind,
    metadata: {
      uid: `uid-${kind}-${name}`,
      name,
      namespace: fixture.namespace ?? 'tenant-a',
      creationTimestamp: iso(LONG_AGO),
      labels: fixture.labels ?? { app: 'vcluster', release: name },
      annotations: fixture.annotations ?? {},
    },
    status: ready === 0 ? { replicas: 0 } : { replicas: ready, readyReplicas: ready },
  };
}

export function cluster(
  name: string,
  metering: Partial<TenantCluster['metering']> = {},
  more: Partial<TenantCluster> = {},
): TenantCluster {
  const namespace = more.namespace ?? 'tenant-a';
  return {
    id: `tenant-${namespace}-${name}`,
    source: 'workload',
    namespace,
    name,
    tenant: `tenant-${namespace}-${name}`,
    displayName: name,
    excluded: false,
    enforcementExempt: false,
    createdAt: LONG_AGO,
    workloads: [name],
    overrides: [],
    metering: {
      cpuMemoryBasis: 'requests',
      meterControlPlane: false,
      meterByNamespace: false,
      meterByQueue: false,
      gpuQuantity: 'equivalents',
      privateNodeBilling: 'node',
      privateNodeTrust: 'tenant',
      maxPrivateNodes: 1_000,
      excludeNamespaces: ['kube-system'],
      podLifetime: 'running',
      ...metering,
    },
    ...more,
  };
}
