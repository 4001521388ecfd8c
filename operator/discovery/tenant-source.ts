import type { DiscoverySettings } from '../config/settings.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';
import type { NodeMode, SyncedNamespace, TenantCluster } from './tenant-cluster.ts';
import type { ControlPlaneWorkload, PlatformInstance } from './vcluster/views.ts';
import type { HostNamespace, Metadata } from './views.ts';

/**
 * One kind of tenants: who they are, as far as the host cluster says, and which namespaces are theirs. A kind
 * is one folder here and one line in registry.ts; whatever is billed, and to whom, is decided for all kinds
 * in one place (docs/discovery.md#how-tenant-clusters-are-found).
 */
export interface TenantSource {
  /** As settings spell it. */
  readonly name: TenantSourceName;
  /** The tenants there are. Reads nothing but its argument, and throws for nothing in it. */
  find(host: HostObjects): FoundTenants;
}

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
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** An object that may carry metadata keys. */
export interface DescribedObject {
  readonly name: string;
  readonly metadata: Metadata;
}
