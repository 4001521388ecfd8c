/** Values of the label `app` that make a StatefulSet or Deployment a tenant cluster (docs/explanation/discovery.md#how-tenant-clusters-are-found). */
export const DISCOVERY_APPS: readonly string[] = ['tenant-cluster', 'vcluster'];

/** Other parts of a control plane: not a tenant cluster of their own, and not tenant usage (docs/explanation/discovery.md#whose-an-object-is). */
export const CONTROL_PLANE_APPS: readonly string[] = [
  ...DISCOVERY_APPS,
  'vcluster-etcd',
  'vcluster-api',
  'vcluster-controller',
];

/**
 * Values of `app` on helpers that a control plane starts for itself, without a `release`: pods that take and
 * restore its snapshots.
 */
export const CONTROL_PLANE_HELPER_APPS: readonly string[] = ['vcluster-snapshot'];

/** The label selector of the two workload watches. */
export const WORKLOAD_SELECTOR = `app in (${DISCOVERY_APPS.join(',')})`;

/** Written by a tenant cluster's syncer on everything that it brings to the host. */
export const MANAGED_BY_LABEL = 'vcluster.loft.sh/managed-by';
