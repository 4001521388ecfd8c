import type { DiscoverySettings } from '../settings/settings.ts';
import type { Projected, RawObject } from '../kubernetes/source.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';
import type { ClusterPlace } from './cluster-ids.ts';
import type {
  KubeconfigSecret,
  NodeMode,
  SyncedNamespace,
  TenantCluster,
} from './tenant-cluster.ts';
import type { ControlPlaneWorkload, PlatformInstance } from './vcluster/views.ts';
import type { HostNamespace, Metadata } from './views.ts';

/**
 * One kind of tenants: finds the tenants on the host cluster and their namespaces. A kind is one
 * folder here and one line in registry.ts. Who pays for what is decided in one place for all kinds
 * (docs/explanation/discovery.md#how-tenant-clusters-are-found).
 */
export interface TenantSource {
  readonly name: TenantSourceName;
  /**
   * The custom resource that it watches in addition to Namespaces, if any. It needs the rights to
   * list and watch it, and no others.
   */
  readonly resource?: TenantResource;
  /** Reads an object's owner from labels that only the kind's controllers write. */
  readonly claim?: (label: (key: string) => string | undefined) => OwnershipClaim | undefined;
  /** The existing tenants. Reads only its argument and never throws. */
  find(host: HostObjects): FoundTenants;
}

/** The owner of an object according to labels that the controllers of a kind of tenants write. */
export interface OwnershipClaim {
  readonly kind: TenantSourceName;
  /** An object of the tenant, or part of the control plane. */
  readonly part: 'tenant' | 'control-plane';
  /** The name of the tenant cluster, which is in the object's namespace. */
  readonly name: string;
}

/** A custom resource that represents one tenant cluster. */
export interface TenantObject extends Projected {
  readonly metadata: Metadata;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** `private`: its pods run on nodes that only its own API shows, not on the host cluster. */
  readonly nodeMode: NodeMode;
  /** Its control plane pods are nodes; the tenant's pods run inside them. */
  readonly runsOnControlPlane?: true;
  /** The administrator's credential for its API; absent if no controller writes one. */
  readonly kubeconfig?: KubeconfigSecret;
  /** Its name in Machines of Cluster API, if that differs. */
  readonly machineCluster?: string;
  /** The more specific kind that finds the same tenant cluster, if settings name it. */
  readonly otherKind?: TenantSourceName;
}

/** The custom resource of a kind of tenants. */
export interface TenantResource {
  readonly group: string;
  readonly plural: string;
  /** Accepted versions, the preferred one first. One projection must fit all. */
  readonly versions: readonly [string, ...string[]];
  /** Reads this kind's fields; undefined if the object is no tenant cluster. Must not throw. */
  readonly describe: (
    object: RawObject,
    identity: Projected,
  ) => Omit<TenantObject, keyof Projected | 'metadata' | 'createdAt'> | undefined;
}

/** A kind whose tenant clusters have its name in their id. */
export type NamedKind = Exclude<TenantSourceName, 'vcluster'>;

/** The watched objects at one moment. Lists, because several kinds may read the same one. */
export interface HostObjects {
  readonly settings: DiscoverySettings;
  readonly labelPrefix: string;
  readonly workloads: readonly ControlPlaneWorkload[];
  /** Empty when the platform API is absent. */
  readonly instances: readonly PlatformInstance[];
  readonly namespace: (name: string) => HostNamespace | undefined;
  readonly namespaces: readonly HostNamespace[];
  /** The namespace of the operator, if known. */
  readonly ownNamespace?: string;
  /** Names of the tenant clusters in TENANT_CLUSTERS_FILE. */
  readonly externalNames: readonly string[];
  /** The custom resources of a kind. */
  readonly objects: (kind: TenantSourceName) => Iterable<TenantObject>;
}

export interface FoundTenants {
  /** Oldest first, so that ids are assigned in that order. */
  readonly candidates: readonly Candidate[];
  /** Ambiguities, one line each. */
  readonly problems: readonly string[];
  /** Namespaces that claim a tenant and belong to nobody. */
  readonly refusedNamespaces: ReadonlySet<string>;
}

/** A found tenant cluster before its payer is known. */
export interface Candidate {
  readonly source: TenantCluster['source'];
  /** Namespace of its control plane; `''` if it has only namespaces of its own. */
  readonly namespace: string;
  /** Namespace of the custom resource that represents it; absent without one. */
  readonly home?: string;
  readonly name: string;
  /** Objects that run it, in order of precedence. The admins of its namespace can edit them. */
  readonly objects: readonly DescribedObject[];
  /** Further namespaces that belong to it alone. */
  readonly syncedNamespaces?: readonly SyncedNamespace[];
  /** Its platform instance. */
  readonly instance?: DescribedObject;
  readonly project?: string;
  readonly displayName?: string;
  readonly nodeMode?: NodeMode;
  readonly runsOnControlPlane?: true;
  /** Names of the StatefulSets and Deployments of its control plane. Only for vCluster. */
  readonly workloads?: readonly string[];
  /** The tenant that the key of its Namespace names, if the kind `namespaces` is configured. */
  readonly namespaceTenant?: ClusterPlace;
  readonly kubeconfigSecret?: KubeconfigSecret;
  /** Its name in Machines of Cluster API, if that differs. */
  readonly machineCluster?: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** An object that may have metadata keys. */
interface DescribedObject {
  readonly name: string;
  readonly metadata: Metadata;
}
