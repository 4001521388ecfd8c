import { namespacesOf } from '../discovery/tenant-cluster.ts';
import type { TenantClusterTimelines } from '../metering/timelines/tenant-cluster-timeline.ts';
import { FINAL_REASONS, type Gap } from '../metering/windows/gaps.ts';
import { PRIVATE_NODES_SOURCE } from '../metering/windows/private-node-limit.ts';
import { TENANT_API } from '../metering/windows/tenant-scopes.ts';

/**
 * Usage samples that were missed cannot be had later, what the collector gave up is given up, and own nodes
 * and resource slices that are too many are left out of windows that are closed; everything else may still
 * be filled, unless its reason is one of {@link FINAL_REASONS}.
 */
const NEVER_FILLED = ['metrics', 'collector', 'resourceslices', PRIVATE_NODES_SOURCE];

/** What these sources measure is of one tenant cluster; others fail for a namespace, and for whoever is in it. */
const OF_ONE_CLUSTER = [TENANT_API, 'prometheus'];

/**
 * Tells whether usage of a tenant may still come out of a gap: its offboarding has to wait for that. A gap
 * of a tenant cluster holds up those that it was billed to, also when it is gone; one of a whole scope,
 * such as all pods, or of what nobody knows any more, may hide usage of anybody.
 */
export function openGaps(
  gaps: readonly Gap[],
  tenantClusters: Pick<TenantClusterTimelines, 'statesOf' | 'tenancies'>,
  fillableFrom: number,
): (tenant: string) => boolean {
  const withGaps = new Set<string>();
  for (const gap of gaps) {
    if (NEVER_FILLED.includes(gap.source) || FINAL_REASONS.has(gap.reason)) continue;
    if (gap.to <= fillableFrom) continue;
    const tenants = tenantsOf(gap, tenantClusters);
    if (tenants.length === 0) return () => true;
    for (const tenant of tenants) withGaps.add(tenant);
  }
  return (tenant) => withGaps.has(tenant);
}

/** Whom the usage in a gap may be billed to; nobody where that cannot be told. */
function tenantsOf(
  { source, scope, from, to }: Gap,
  tenantClusters: Pick<TenantClusterTimelines, 'statesOf' | 'tenancies'>,
): readonly string[] {
  const states = tenantClusters.statesOf(scope, -Infinity, Infinity).map(({ state }) => state);
  const neighbours = OF_ONE_CLUSTER.includes(source)
    ? []
    : states
        .flatMap(namespacesOf)
        .flatMap((namespace) => tenantClusters.tenancies(namespace, from, to))
        .flatMap(({ clusters, leaving = [] }) => [
          ...clusters,
          ...leaving.map(({ cluster }) => cluster),
        ]);
  return [...states, ...neighbours].map(({ tenant }) => tenant);
}
