import { CONTROL_PLANE_APPS, CONTROL_PLANE_HELPER_APPS } from './vcluster/selection.ts';
import type { TenantCluster } from './tenant-cluster.ts';

/** What of a pod, claim or Service says whose it is. */
export interface Owned {
  readonly namespace: string;
  readonly labels: OwnershipLabels;
}

export interface OwnershipLabels {
  /** `vcluster.loft.sh/managed-by`: the syncer writes it, and renames a tenant's own spelling of it. */
  readonly managedBy?: string;
  readonly app?: string;
  readonly release?: string;
  /** It belongs to a virtual machine. */
  readonly virtualMachine?: true;
}

/**
 * Whose an object is. `machine`: it is a node of some tenant cluster, which is billed for that node.
 * `unattributed`: nobody can tell, so it is reported and billed to nobody.
 */
export type Attribution =
  | { readonly kind: 'machine' }
  | { readonly kind: 'tenant'; readonly cluster: TenantCluster }
  | { readonly kind: 'control-plane'; readonly cluster: TenantCluster }
  | { readonly kind: 'unattributed' };

/**
 * Tells whose an object is, among the tenant clusters of its namespace, excluded ones included
 * (docs/discovery.md#whose-an-object-is). In a namespace that a syncer maps everything is its tenant
 * cluster's, whatever the labels say: there the syncer leaves labels as tenants write them. Elsewhere `managed-by` is looked at first: tenants may give their own pods any `app` label, and
 * an object that a syncer brought is never control plane. Objects without that label belong to the
 * namespace's only tenant cluster, and to nobody where there are several. A tenant that only metadata of the
 * Namespace name gives way to any tenant cluster there, also to one that is leaving.
 */
export function attribute(
  { namespace, labels }: Owned,
  all: readonly TenantCluster[],
): Attribution {
  const clusters = mostSpecific(all);
  const [only, ...others] = clusters;
  if (only !== undefined && others.length === 0 && only.namespace !== namespace) {
    return { kind: 'tenant', cluster: only };
  }
  const { managedBy, app, release, virtualMachine } = labels;
  const holdsMachines = clusters.some((cluster) => cluster.machines === true);
  if (virtualMachine && managedBy === undefined && holdsMachines) return { kind: 'machine' };
  if (managedBy !== undefined) {
    const cluster = clusters.find(({ name }) => name === managedBy);
    return cluster === undefined ? { kind: 'unattributed' } : { kind: 'tenant', cluster };
  }
  if (app !== undefined && CONTROL_PLANE_APPS.includes(app)) {
    const cluster = clusters.find(({ name }) => name === release);
    if (cluster !== undefined) return { kind: 'control-plane', cluster };
  }
  if (only === undefined || others.length > 0) return { kind: 'unattributed' };
  const isHelper = app !== undefined && CONTROL_PLANE_HELPER_APPS.includes(app);
  return { kind: isHelper ? 'control-plane' : 'tenant', cluster: only };
}

function mostSpecific(clusters: readonly TenantCluster[]): readonly TenantCluster[] {
  if (clusters.length < 2) return clusters;
  const specific = clusters.filter(({ source }) => source !== 'namespaces');
  return specific.length > 0 ? specific : clusters;
}
