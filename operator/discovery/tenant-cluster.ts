import type { TenantMeteringSettings } from '../settings/settings.ts';
import type { BillingDetails, CustomerIds, PlanChange, SubscriptionIds } from '../model/tenant.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';

/**
 * A tenant cluster and whom its usage is billed to, as discovery found it (docs/explanation/discovery.md).
 * Immutable: every discovery round makes new values.
 */
export interface TenantCluster {
  /** `tenant-<namespace>-<name>`, or `external-<name>`; remembered once assigned (docs/explanation/discovery.md#ids). */
  readonly id: string;
  /**
   * What showed it: control plane workloads of vCluster, TENANT_CLUSTERS_FILE, or another kind of tenants by
   * its name (docs/explanation/discovery.md#several-kinds-of-tenants).
   */
  readonly source: 'workload' | 'external' | Exclude<TenantSourceName, 'vcluster'>;
  /** Host namespace that holds its control plane and synced objects; `''` where it has no control plane here. */
  readonly namespace: string;
  /** Where the custom resource is that stands for it; absent where none does. */
  readonly home?: string;
  readonly name: string;
  /**
   * Further host namespaces, which are its own as a whole, sorted by name: its syncer maps them one to one
   * (docs/explanation/discovery.md#namespaces-that-a-syncer-maps), or their metadata give them to it
   * (docs/how-to/tenants/namespaces.md); absent where there are none.
   */
  readonly syncedNamespaces?: readonly SyncedNamespace[];
  /** Billing customer: override → label or annotation → TENANT_SOURCE (docs/explanation/discovery.md#who-is-billed). */
  readonly tenant: string;
  readonly displayName: string;
  readonly project?: string;
  readonly tenantClass?: string;
  readonly plan?: string;
  /** When a change of the plan is made; absent where each destination's own setting holds. */
  readonly planChange?: PlanChange;
  readonly currency?: string;
  readonly email?: string;
  readonly costCenter?: string;
  /** The customers that its metadata pin; absent when they pin none. */
  readonly customerIds?: CustomerIds;
  /** The subscriptions that its metadata pin; absent when they pin none. */
  readonly subscriptionIds?: SubscriptionIds;
  /** What a TenantOverride says of the customer's invoices. */
  readonly billing?: BillingDetails;
  /** Platform instance that points here, when there is one. */
  readonly instance?: string;
  /** Whether it has nodes of its own, where that is known: annotation `node-mode`, else the platform. */
  readonly nodeMode?: NodeMode;
  /**
   * Virtual machines in its namespace are nodes of tenant clusters, and not usage of this one: metadata key
   * `machines` (docs/explanation/nodes.md#virtual-machines-that-are-nodes).
   */
  readonly machines?: true;
  /** Names of the StatefulSets and Deployments that discovery found to run its control plane; vCluster alone has them. */
  readonly workloads?: readonly string[];
  /** Id of the tenant that the key of its Namespace names (docs/how-to/tenants/namespaces.md), to which it is billed. */
  readonly namespaceTenant?: string;
  /** Its control plane's pods are its nodes too, and so its usage: what its tenant runs is inside of them. */
  readonly runsOnControlPlane?: true;
  /** The administrator's kubeconfig that its own controllers write; absent where it is `vc-<name>` or nobody does. */
  readonly kubeconfigSecret?: KubeconfigSecret;
  /** What Machines of Cluster API call it (`spec.clusterName`), where that is not its name. */
  readonly machineCluster?: string;
  /** Path of the mounted kubeconfig of an external tenant cluster; absent for all others. */
  readonly kubeconfigFile?: string;
  /** Not metered: metadata key `exclude` or a TenantOverride. */
  readonly excluded: boolean;
  /** Never suspended: a TenantOverride says so. */
  readonly enforcementExempt: boolean;
  /** Milliseconds since the epoch, of its oldest control plane workload. */
  readonly createdAt: number;
  /** Settings in force for this tenant cluster: TenantOverride → MeteringPolicy → environment. */
  readonly metering: TenantMeteringSettings;
  /** Names of the TenantOverrides that apply, most specific first. */
  readonly overrides: readonly string[];
}

/** A key of a Secret that holds a kubeconfig. */
export interface KubeconfigSecret {
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
}

/** A host namespace that is one tenant cluster's as a whole. */
export interface SyncedNamespace {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** Every host namespace that objects of a tenant cluster are in: its control plane's, and those that are its own as a whole. */
export function namespacesOf({
  namespace,
  syncedNamespaces = [],
}: Pick<TenantCluster, 'namespace' | 'syncedNamespaces'>): readonly string[] {
  const complete = syncedNamespaces.map(({ name }) => name);
  return namespace === '' && complete.length > 0 ? complete : [namespace, ...complete];
}

/** Those of some tenant clusters that have a host namespace. */
export function clustersIn(
  clusters: readonly TenantCluster[],
  namespace: string,
): readonly TenantCluster[] {
  return clusters.filter((cluster) => namespacesOf(cluster).includes(namespace));
}

/** `private`: it has nodes of its own. `shared`: its pods run on the host's. */
export type NodeMode = 'shared' | 'private';

/** What one discovery round says. `failed` never shrinks the known set (docs/explanation/discovery.md#how-tenant-clusters-are-found). */
export type DiscoveryOutcome =
  | { readonly kind: 'found'; readonly clusters: readonly TenantCluster[] }
  | { readonly kind: 'failed'; readonly reason: string };
