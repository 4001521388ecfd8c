import { isControlPlaneApp, isHelper, isRunBy, readClaim } from './control-plane.ts';
import type { TenantCluster } from './tenant-cluster.ts';

/** What of a pod, claim or Service says whose it is. */
interface Owned {
  readonly namespace: string;
  readonly labels: OwnershipLabels;
}

export interface OwnershipLabels {
  /** `vcluster.loft.sh/managed-by`: the syncer writes it, and renames a tenant's own spelling of it. */
  readonly managedBy?: string;
  readonly app?: string;
  readonly release?: string;
  /** What labels of another kind of tenants say, as `claimText` writes it. */
  readonly claim?: string;
  /** It belongs to a virtual machine. */
  readonly virtualMachine?: true;
  /** Name of the StatefulSet or Deployment that runs a pod that looks like a control plane's, `''` where none does. */
  readonly runBy?: string;
  /** It may hold GPUs: then it is no part of a control plane. */
  readonly holdsGpus?: true;
}

/**
 * Whose an object is. `machine`: it is a node of some tenant cluster, which is billed for that node.
 * `unattributed`: nobody can tell, so it is reported and billed to nobody.
 */
export type Attribution =
  | { readonly kind: 'machine' }
  | {
      readonly kind: 'tenant';
      readonly cluster: TenantCluster;
      /** It would be control plane, but for the GPUs that it may hold. */
      readonly ofControlPlane?: true;
    }
  | { readonly kind: 'control-plane'; readonly cluster: TenantCluster }
  | { readonly kind: 'unattributed' };

/**
 * Tells whose an object is, among the tenant clusters of its namespace, excluded ones included
 * (docs/explanation/discovery.md#whose-an-object-is). In a namespace that a syncer maps everything is its tenant
 * cluster's, whatever the labels say: there the syncer leaves labels as tenants write them. Elsewhere `managed-by` is looked at first: tenants may give their own pods any `app` label, and
 * an object that a syncer brought is never control plane, and neither is one that may hold GPUs. Objects without that label belong to the
 * namespace's only tenant cluster, and to nobody where there are several. A tenant that only metadata of the
 * Namespace name gives way to any tenant cluster there, also to one that is leaving; it keeps what labels
 * give to none, where the kind of those tenant clusters labels all that is theirs.
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
  const isSole = others.length === 0 && specific.every(labelsItsOwn);
  return found.kind === 'unattributed' && isSole ? { kind: 'tenant', cluster: tenant } : found;
}

/** What a namespace is of by metadata of the Namespace. */
function isNamed({ source }: TenantCluster): boolean {
  return source === 'namespaces';
}

/** Its controllers label all that they bring, so that what has no such label is not its own. */
function labelsItsOwn({ source }: TenantCluster): boolean {
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
  const ownKind = clusters.filter(({ source }) => source === 'workload');
  if (ownKind.length === 0) return { kind: 'unattributed' };
  const holdsMachines = clusters.some((cluster) => cluster.machines === true);
  if (virtualMachine && managedBy === undefined && holdsMachines) return { kind: 'machine' };
  if (managedBy !== undefined) {
    const cluster = ownKind.find(({ name }) => name === managedBy);
    return cluster === undefined ? { kind: 'unattributed' } : { kind: 'tenant', cluster };
  }
  if (isControlPlaneApp(app)) {
    const cluster = ownKind.find(({ name }) => name === release);
    if (cluster !== undefined && isRunBy(cluster, labels))
      return { kind: 'control-plane', cluster };
  }
  if (only === undefined || others.length > 0) return { kind: 'unattributed' };
  return { kind: isHelper(only, labels) ? 'control-plane' : 'tenant', cluster: only };
}

/**
 * What the labels of another kind come to where it has tenant clusters in the namespace; undefined where it
 * has none, or where its labels are those of anybody's object. A tenant of vCluster can write the labels of
 * other kinds, and theirs can write vCluster's: where both name somebody, nobody can tell.
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
