import type { TenantMeteringSettings } from '../settings/settings.ts';
import type { BillingDetails, CustomerIds, PlanChange, SubscriptionIds } from '../model/tenant.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';

/**
 * A tenant cluster and its payer, as discovered (docs/explanation/discovery.md). Immutable: each
 * pass creates new values.
 */
export interface TenantCluster {
  /**
   * `tenant-<namespace>-<name>` or `external-<name>`. Stored once assigned
   * (docs/explanation/discovery.md#ids).
   */
  readonly id: string;
  /**
   * How it was found: control plane workloads of vCluster, TENANT_CLUSTERS_FILE, or another kind of
   * tenants (docs/explanation/discovery.md#several-kinds-of-tenants).
   */
  readonly source: 'workload' | 'external' | Exclude<TenantSourceName, 'vcluster'>;
  /** Host namespace of its control plane and synced objects; `''` if the former is not here. */
  readonly namespace: string;
  /** Namespace of the custom resource that represents it; absent without one. */
  readonly home?: string;
  readonly name: string;
  /**
   * Further host namespaces that belong to it alone, sorted by name; absent without any.
   * 1. Its syncer maps them one to one
   *    (docs/explanation/discovery.md#namespaces-that-a-syncer-maps).
   * 2. Or their metadata give them to it (docs/how-to/tenants/namespaces.md).
   */
  readonly syncedNamespaces?: readonly SyncedNamespace[];
  /**
   * Billing customer: override → label or annotation → TENANT_SOURCE
   * (docs/explanation/discovery.md#who-is-billed).
   */
  readonly tenant: string;
  readonly displayName: string;
  readonly project?: string;
  readonly tenantClass?: string;
  readonly plan?: string;
  /** When a change of the plan takes effect; absent to use each destination's setting. */
  readonly planChange?: PlanChange;
  readonly currency?: string;
  readonly email?: string;
  readonly costCenter?: string;
  /** The customer ids that its metadata pin; absent without any. */
  readonly customerIds?: CustomerIds;
  /** The subscriptions that its metadata pin; absent without any. */
  readonly subscriptionIds?: SubscriptionIds;
  /** Invoice details of a TenantOverride. */
  readonly billing?: BillingDetails;
  /** Name of its platform instance, if there is one. */
  readonly instance?: string;
  /** Whether it has private nodes, if known: annotation `node-mode`, else the platform. */
  readonly nodeMode?: NodeMode;
  /**
   * Virtual machines in its namespace are nodes of tenant clusters, not its usage: metadata key
   * `machines` (docs/explanation/nodes.md#virtual-machines-that-are-nodes).
   */
  readonly machines?: true;
  /** Names of the StatefulSets and Deployments of its control plane. Only for vCluster. */
  readonly workloads?: readonly string[];
  /**
   * Id of the tenant that the key of its Namespace names, and that pays for it
   * (docs/how-to/tenants/namespaces.md).
   */
  readonly namespaceTenant?: string;
  /** Its control plane pods are its nodes and thus its usage: tenant pods run inside them. */
  readonly runsOnControlPlane?: true;
  /**
   * The administrator's kubeconfig that its controllers write. Absent if it is `vc-<name>` or does
   * not exist.
   */
  readonly kubeconfigSecret?: KubeconfigSecret;
  /** Its name in Machines of Cluster API (`spec.clusterName`), if that differs. */
  readonly machineCluster?: string;
  /** Path of the mounted kubeconfig of an external tenant cluster; otherwise absent. */
  readonly kubeconfigFile?: string;
  /** Not metered: metadata key `exclude` or a TenantOverride. */
  readonly excluded: boolean;
  /** Never suspended because of a TenantOverride. */
  readonly enforcementExempt: boolean;
  /** Creation of its oldest control plane workload, milliseconds since the epoch. */
  readonly createdAt: number;
  /** Its metering settings: TenantOverride → MeteringPolicy → environment. */
  readonly metering: TenantMeteringSettings;
  /** Names of the TenantOverrides that apply, most specific first. */
  readonly overrides: readonly string[];
}

/** The key of a Secret with a kubeconfig. */
export interface KubeconfigSecret {
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
}

/** A host namespace that belongs to one tenant cluster alone. */
export interface SyncedNamespace {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/**
 * Every host namespace with objects of a tenant cluster: that of its control plane, and those that
 * belong to it alone.
 */
export function namespacesOf({
  namespace,
  syncedNamespaces = [],
}: Pick<TenantCluster, 'namespace' | 'syncedNamespaces'>): readonly string[] {
  const complete = syncedNamespaces.map(({ name }) => name);
  return namespace === '' && complete.length > 0 ? complete : [namespace, ...complete];
}

/** The tenant clusters that have objects in a host namespace. */
export function clustersIn(
  clusters: readonly TenantCluster[],
  namespace: string,
): readonly TenantCluster[] {
  return clusters.filter((cluster) => namespacesOf(cluster).includes(namespace));
}

/** `private`: it has private nodes. `shared`: its pods run on nodes of the host cluster. */
export type NodeMode = 'shared' | 'private';

/**
 * The outcome of one discovery pass. A `failed` pass never shrinks the known set
 * (docs/explanation/discovery.md#how-tenant-clusters-are-found).
 */
export type DiscoveryOutcome =
  | { readonly kind: 'found'; readonly clusters: readonly TenantCluster[] }
  | { readonly kind: 'failed'; readonly reason: string };
