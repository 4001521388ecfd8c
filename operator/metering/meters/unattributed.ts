import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { quote } from '../../model/quote.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import type { ObservationReader } from '../timelines/observation.ts';

/**
 * Returns why an object belongs to none of the tenant clusters of its namespace
 * (docs/explanation/discovery.md#whose-an-object-is).
 */
export function unattributedReason(
  { managedBy, claim }: ObjectLabels,
  clusters: readonly TenantCluster[],
): string {
  if (managedBy !== undefined && clusters.some(({ name }) => name === managedBy)) {
    return `labels of two kinds of tenants, ${quote(managedBy)} and ${quote(claim ?? '')}, which contradict each other`;
  }
  if (managedBy !== undefined) {
    return `managed by ${quote(managedBy)}, which is no tenant cluster of its namespace`;
  }
  if (claim !== undefined && clusters.some(({ source }) => claim.startsWith(`${source}/`))) {
    return `labelled as that of ${quote(claim)}, which is no tenant cluster of its namespace`;
  }
  if (clusters.length > 0 && clusters.every(({ source }) => source !== 'workload')) {
    return 'no label that names its owner, in a namespace of tenant clusters';
  }
  return clusters.length > 1
    ? 'several tenant clusters in its namespace, and no label that names its owner'
    : 'created after its tenant cluster was uninstalled';
}

const REFUSED =
  'in a namespace that a syncer claims and that belongs to no tenant cluster; discovery_problems has the reason';

/** Reason for unbilled GPU time on private nodes whose owner is known. */
export const EXCLUDED_NAMESPACE =
  'in a namespace of TENANT_EXCLUDE_NAMESPACES, in which nothing is billed; remove the namespace from the list, or the pods with GPUs from the namespace';

/**
 * Returns why an object is unattributed in a namespace without tenant clusters; undefined for
 * objects that no tenant cluster brought. Only a syncer writes the label `managed-by`, so a tenant
 * cluster brought it. Imported objects in mapped namespaces lack it.
 */
export function strayReason(
  { refusedNamespaces }: Pick<ObservationReader, 'refusedNamespaces'>,
  namespace: string,
  labels: ObjectLabels,
): string | undefined {
  if (refusedNamespaces.has(namespace)) return REFUSED;
  return labels.managedBy === undefined ? undefined : unattributedReason(labels, []);
}
