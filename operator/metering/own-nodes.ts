import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { NodeState } from '../observation/node-state.ts';
import type { OwnedStretch, Owners } from './dedicated-nodes.ts';
import type { MeterInput } from './meter.ts';

/**
 * Nodes of a tenant cluster's own are billed whole to it while PRIVATE_NODE_BILLING is `node`; under
 * `usage` what runs on them is billed instead (spec 1.1). A node that belongs to the host cluster is
 * nobody's here, whatever the tenant's API says.
 */
export function ownNodeOwners({ observation }: Pick<MeterInput, 'observation'>): Owners {
  return (state, from, to) => {
    if (state.foreign === true) return [unowned(from, to)];
    const stretches: OwnedStretch[] = [];
    let reached = from;
    for (const tenancy of observation.tenantClusters.tenancies('', from, to)) {
      const start = Math.max(from, tenancy.from);
      const end = Math.min(to, tenancy.to);
      if (start > reached) stretches.push(unowned(reached, start));
      const owner = tenancy.clusters.find(({ metering }) => metering.privateNodeBilling === 'node');
      stretches.push({ from: start, to: end, owner, rivals: [] });
      reached = end;
    }
    if (reached < to) stretches.push(unowned(reached, to));
    return stretches;
  };
}

function unowned(from: number, to: number): OwnedStretch {
  return { from, to, owner: undefined, rivals: [] };
}

type Place = Pick<MeterInput, 'ownNodes'>;

/**
 * Whether what runs on a node in this state is billed here. Pods that a tenant cluster's own API
 * shows on a node that is not its own run on this cluster, which bills them.
 */
export function isBilledHere({ ownNodes }: Place, node: NodeState | undefined): boolean {
  return ownNodes !== true || (node !== undefined && node.foreign !== true);
}

/** TENANT_EXCLUDE_NAMESPACES: pods on own nodes that cost nothing in mode `usage` (spec 1.1). */
export function isExcludedNamespace(
  { ownNodes }: Place,
  cluster: TenantCluster,
  namespace: string,
): boolean {
  return ownNodes === true && cluster.metering.excludeNamespaces.includes(namespace);
}

/** The `billing_mode` of pods. */
export function podBillingMode({ ownNodes }: Place): 'shared' | 'private_node' {
  return ownNodes === true ? 'private_node' : 'shared';
}

/**
 * What tells events of volumes and load balancers inside a tenant cluster from those of the ones that
 * it has on this cluster: the two are closed at different times and must not have one id.
 */
export function ownDimensions({ ownNodes }: Place): Readonly<Record<string, string>> {
  return ownNodes === true ? { billing_mode: 'private_node' } : {};
}
