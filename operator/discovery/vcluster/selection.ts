/**
 * Values of the label `app` that make a StatefulSet or Deployment a tenant cluster
 * (docs/explanation/discovery.md#how-tenant-clusters-are-found).
 */
export const DISCOVERY_APPS: readonly string[] = ['tenant-cluster', 'vcluster'];

/**
 * Parts of a control plane: neither separate tenant clusters nor tenant usage
 * (docs/explanation/discovery.md#whose-an-object-is).
 */
export const CONTROL_PLANE_APPS: readonly string[] = [
  ...DISCOVERY_APPS,
  'vcluster-etcd',
  'vcluster-api',
  'vcluster-controller',
];

/**
 * Values of `app` on helper pods of a control plane, which have no `release`: pods that take and
 * restore its snapshots.
 */
export const CONTROL_PLANE_HELPER_APPS: readonly string[] = ['vcluster-snapshot'];

/** The label selector of the two workload watches. */
export const WORKLOAD_SELECTOR = `app in (${DISCOVERY_APPS.join(',')})`;

/** The syncer of a tenant cluster sets it on everything that it creates on the host. */
export const MANAGED_BY_LABEL = 'vcluster.loft.sh/managed-by';
