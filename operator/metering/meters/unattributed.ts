import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { quote } from '../../model/quote.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import type { ObservationReader } from '../timelines/observation.ts';

/** Why none of the tenant clusters that an object's namespace has is its own (docs/explanation/discovery.md#whose-an-object-is). */
export function unattributedReason(
  { managedBy, claim }: ObjectLabels,
  clusters: readonly TenantCluster[],
): string {
  if (managedBy !== undefined && clusters.some(({ name }) => name === managedBy)) {
    return `labels of two kinds of tenants, ${quote(managedBy)} and ${quote(claim ?? '')}, and no one can tell which holds`;
  }
  if (managedBy !== undefined) {
    return `managed by ${quote(managedBy)}, which is no tenant cluster of its namespace`;
  }
  if (claim !== undefined && clusters.some(({ source }) => claim.startsWith(`${source}/`))) {
    return `labelled as that of ${quote(claim)}, which is no tenant cluster of its namespace`;
  }
  if (clusters.length > 0 && clusters.every(({ source }) => source !== 'workload')) {
    return 'no label that tells whose it is, in a namespace of tenant clusters';
  }
  return clusters.length > 1
    ? 'several tenant clusters in its namespace, and no label that tells whose it is'
    : 'created after its tenant cluster was uninstalled';
}

const REFUSED =
  'in a namespace that says a syncer maps it and that is given to nobody; discovery_problems says why';

/** Why GPU time of a tenant cluster with nodes of its own is billed to nobody though its owner is known. */
export const EXCLUDED_NAMESPACE =
  'in a namespace of TENANT_EXCLUDE_NAMESPACES, in which nothing is billed; take the namespace out, or what holds GPUs';

/**
 * Why an object is unattributed in a namespace without tenant clusters; undefined for what a tenant cluster
 * has nothing to do with. Only a syncer writes the label, so somebody's tenant cluster brought it; imported
 * objects in namespaces that a syncer maps lack it.
 */
export function strayReason(
  { refusedNamespaces }: Pick<ObservationReader, 'refusedNamespaces'>,
  namespace: string,
  labels: ObjectLabels,
): string | undefined {
  if (refusedNamespaces.has(namespace)) return REFUSED;
  return labels.managedBy === undefined ? undefined : unattributedReason(labels, []);
}
