import {
  type ControlPlaneLabels,
  isControlPlaneApp,
  isHelper,
  isRunBy,
  readClaim,
} from './control-plane.ts';
import type { TenantCluster } from './tenant-cluster.ts';

/** The fields of a pod, claim or Service that decide who owns it. */
interface Owned {
  readonly namespace: string;
  readonly labels: OwnershipLabels;
}

export interface OwnershipLabels extends ControlPlaneLabels {
  /** `vcluster.loft.sh/managed-by`, written by the syncer, which renames a tenant's own label. */
  readonly managedBy?: string;
  readonly release?: string;
  /** KubeVirt made it for a virtual machine: its pod or disk, by owner references, not labels. */
  readonly virtualMachine?: true;
  /** A pod or claim that looks like a control plane's but may use GPUs. */
  readonly holdsGpus?: true;
}

/**
 * The owner of an object. `machine`: it is a node of a tenant cluster, which is billed for that
 * node. `unattributed`: the owner is unknown, so it is reported and nobody is billed.
 */
export type Attribution =
  | { readonly kind: 'machine' }
  | {
      readonly kind: 'tenant';
      readonly cluster: TenantCluster;
      /** It would be part of the control plane if it had no GPUs. */
      readonly ofControlPlane?: true;
    }
  | { readonly kind: 'control-plane'; readonly cluster: TenantCluster }
  | { readonly kind: 'unattributed' };

/**
 * Decides who owns an object, among the tenant clusters of its namespace, excluded ones included
 * (docs/explanation/discovery.md#whose-an-object-is). The first of these situations counts:
 * 1. A namespace that a syncer maps: everything in it belongs to its tenant cluster. There tenants
 *    write the labels themselves.
 * 2. `managed-by` names a tenant cluster: the object belongs to it. It is never control plane,
 *    because tenants may set any `app` label.
 * 3. An object that may have GPUs is usage, never control plane.
 * 4. Without that label, the object belongs to the only tenant cluster of the namespace. With
 *    several, its owner is unknown.
 * 5. A tenant that only metadata of the Namespace name comes last, even after a tenant cluster that
 *    is leaving. It receives what labels give to nobody, if the kinds of all other tenant clusters
 *    there label everything they own.
 */
export function attribute(owned: Owned, clusters: readonly TenantCluster[]): Attribution {
  const found = attributeByLabels(owned, clusters);
  if (found.kind !== 'control-plane' || owned.labels.holdsGpus === undefined) return found;
  return { kind: 'tenant', cluster: found.cluster, ofControlPlane: true };
}

function attributeByLabels(owned: Owned, clusters: readonly TenantCluster[]): Attribution {
  const [tenant, ...others] = clusters.length > 1 ? clusters.filter(isNamed) : [];
  if (tenant === undefined) return amongClusters(owned, clusters);
  const specific = clusters.filter((cluster) => !isNamed(cluster));
  const found = amongClusters(owned, specific);
  const isSole = others.length === 0 && specific.every(labelsAllObjects);
  return found.kind === 'unattributed' && isSole ? { kind: 'tenant', cluster: tenant } : found;
}

/** True for a tenant that only metadata of the Namespace name. */
function isNamed({ source }: TenantCluster): boolean {
  return source === 'namespaces';
}

/**
 * True for kinds whose controllers label every object they create. An object without that label
 * belongs to somebody else.
 */
function labelsAllObjects({ source }: TenantCluster): boolean {
  return source !== 'workload';
}

function amongClusters(
  { namespace, labels }: Owned,
  clusters: readonly TenantCluster[],
): Attribution {
  const [only, ...others] = clusters;
  if (only !== undefined && others.length === 0 && only.namespace !== namespace) {
    return { kind: 'tenant', cluster: only };
  }
  const { managedBy, app, release, virtualMachine } = labels;
  const claimed = byClaim(labels, clusters);
  if (claimed !== undefined) return claimed;
  const vclusters = clusters.filter(({ source }) => source === 'workload');
  if (vclusters.length === 0) return { kind: 'unattributed' };
  const hasMachines = clusters.some((cluster) => cluster.machines === true);
  if (virtualMachine && managedBy === undefined && hasMachines) return { kind: 'machine' };
  if (managedBy !== undefined) {
    const cluster = vclusters.find(({ name }) => name === managedBy);
    return cluster === undefined ? { kind: 'unattributed' } : { kind: 'tenant', cluster };
  }
  if (isControlPlaneApp(app)) {
    const cluster = vclusters.find(({ name }) => name === release);
    if (cluster !== undefined && isRunBy(cluster, labels))
      return { kind: 'control-plane', cluster };
  }
  if (only === undefined || others.length > 0) return { kind: 'unattributed' };
  return { kind: isHelper(only, labels) ? 'control-plane' : 'tenant', cluster: only };
}

/**
 * The owner according to the labels of another kind. Undefined if that kind has no tenant cluster
 * in the namespace, or if anybody could have these labels. Tenants of vCluster can write labels of
 * other kinds and vice versa: if both name an owner, it is unknown.
 */
function byClaim(
  { claim, managedBy, runBy }: OwnershipLabels,
  clusters: readonly TenantCluster[],
): Attribution | undefined {
  if (claim === undefined) return undefined;
  const { kind, part, name } = readClaim(claim);
  const ofKind = clusters.filter(({ source }) => source === kind);
  if (ofKind.length === 0) return undefined;
  const cluster = ofKind.find((each) => each.name === name);
  const isContested = clusters.some(
    (each) => each.source === 'workload' && each.name === managedBy,
  );
  if (cluster !== undefined && !isContested) {
    const isUsage = cluster.runsOnControlPlane === true || runBy === '';
    return { kind: isUsage ? 'tenant' : part, cluster };
  }
  return part === 'control-plane' ? undefined : { kind: 'unattributed' };
}
