import type { DiscoverySettings } from '../settings/settings.ts';
import type { Projected, RawObject } from '../kubernetes/source.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';
import type { Place } from './cluster-ids.ts';
import type {
  KubeconfigSecret,
  NodeMode,
  SyncedNamespace,
  TenantCluster,
} from './tenant-cluster.ts';
import type { ControlPlaneWorkload, PlatformInstance } from './vcluster/views.ts';
import type { HostNamespace, Metadata } from './views.ts';

/**
 * One kind of tenants: who they are, as far as the host cluster says, and which namespaces are theirs. A kind
 * is one folder here and one line in registry.ts; whatever is billed, and to whom, is decided for all kinds
 * in one place (docs/explanation/discovery.md#how-tenant-clusters-are-found).
 */
export interface TenantSource {
  /** As settings spell it. */
  readonly name: TenantSourceName;
  /**
   * The custom resource that it watches besides Namespaces, where there is one: to be listed and watched is all
   * the right that it needs.
   */
  readonly resource?: TenantResource;
  /** What labels say of an object's owner that only the kind's own controllers write. */
  readonly claim?: (label: (key: string) => string | undefined) => OwnershipClaim | undefined;
  /** The tenants there are. Reads nothing but its argument, and throws for nothing in it. */
  find(host: HostObjects): FoundTenants;
}

/** What labels say of an object's owner, as controllers of a kind of tenants write them. */
export interface OwnershipClaim {
  readonly kind: TenantSourceName;
  /** Something that a tenant runs, or a part of the control plane. */
  readonly part: 'tenant' | 'control-plane';
  /** The tenant cluster's name; it is in the object's namespace. */
  readonly name: string;
}

/** A custom resource that stands for one tenant cluster. */
export interface TenantObject extends Projected {
  readonly metadata: Metadata;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** `private`: nothing that it runs is on the host cluster, but on nodes that its own API shows. */
  readonly nodeMode: NodeMode;
  /** Its control plane's pods are nodes, inside of which its tenant's pods run. */
  readonly runsOnControlPlane?: true;
  /** The administrator's credential to its API; absent where nobody writes one. */
  readonly kubeconfig?: KubeconfigSecret;
  /** What Machines of Cluster API call it, where that is not its name. */
  readonly machineCluster?: string;
  /** The more specific kind that finds the same tenant cluster, where settings name it. */
  readonly otherKind?: TenantSourceName;
}

/** The custom resource of a kind of tenants. */
export interface TenantResource {
  readonly group: string;
  readonly plural: string;
  /** Accepted versions, the preferred one first; alike enough for one projection. */
  readonly versions: readonly [string, ...string[]];
  /** Reads what the kind alone knows; undefined for what is no tenant cluster. Must not throw. */
  readonly describe: (
    object: RawObject,
    identity: Projected,
  ) => Omit<TenantObject, keyof Projected | 'metadata' | 'createdAt'> | undefined;
}

/** A kind that tells its tenant clusters by its name. */
export type NamedKind = Exclude<TenantSourceName, 'vcluster'>;

/** What the watches hold at one moment; lists, since several may read the same one. */
export interface HostObjects {
  readonly settings: DiscoverySettings;
  readonly labelPrefix: string;
  readonly workloads: readonly ControlPlaneWorkload[];
  /** Empty when the platform API is absent. */
  readonly instances: readonly PlatformInstance[];
  readonly namespace: (name: string) => HostNamespace | undefined;
  /** All of them. */
  readonly namespaces: readonly HostNamespace[];
  /** The namespace that the operator runs in, where it is known. */
  readonly ownNamespace?: string | undefined;
  /** Names of the tenant clusters in TENANT_CLUSTERS_FILE. */
  readonly externalNames: readonly string[];
  /** The custom resources of a kind. */
  readonly objects: (kind: TenantSourceName) => Iterable<TenantObject>;
}

export interface FoundTenants {
  /** In the order of their age, so that ids are given in that order. */
  readonly candidates: readonly Candidate[];
  /** Ambiguities, one line each. */
  readonly problems: readonly string[];
  /** Namespaces that say they are a tenant's, and are nobody's. */
  readonly refusedNamespaces: ReadonlySet<string>;
}

/** A tenant cluster before it is known whom it is billed to. */
export interface Candidate {
  readonly source: TenantCluster['source'];
  /** Where its control plane is; `''` where it has none, but namespaces of its own. */
  readonly namespace: string;
  /** Where the custom resource is that stands for it; absent where none does. */
  readonly home?: string;
  readonly name: string;
  /** Objects that run it, which the admins of its namespace can edit; those that count first are first. */
  readonly objects: readonly DescribedObject[];
  /** Further namespaces, its own as a whole. */
  readonly syncedNamespaces?: readonly SyncedNamespace[];
  /** What the platform says of it. */
  readonly instance?: DescribedObject;
  readonly project?: string;
  readonly displayName?: string;
  readonly nodeMode?: NodeMode;
  readonly runsOnControlPlane?: true;
  /** Names of the StatefulSets and Deployments that run its control plane; vCluster alone has them. */
  readonly workloads?: readonly string[];
  /** The tenant that the key of its Namespace names, where the kind `namespaces` is looked for, too. */
  readonly namespaceTenant?: Place;
  readonly kubeconfigSecret?: KubeconfigSecret;
  /** What Machines of Cluster API call it, where that is not its name. */
  readonly machineCluster?: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** An object that may carry metadata keys. */
interface DescribedObject {
  readonly name: string;
  readonly metadata: Metadata;
}
