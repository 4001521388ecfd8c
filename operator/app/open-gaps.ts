import { namespacesOf } from '../discovery/tenant-cluster.ts';
import type { TenantClusterTimelines } from '../metering/timelines/tenant-cluster-timeline.ts';
import { FINAL_REASONS, type Gap } from '../metering/windows/gaps.ts';
import { PRIVATE_NODES_SOURCE } from '../metering/windows/private-node-limit.ts';
import { TENANT_API } from '../metering/windows/tenant-scopes.ts';

/**
 * Sources whose gaps never fill. Other gaps may fill later, except for {@link FINAL_REASONS}.
 * - `metrics`: a missed usage sample cannot be read later.
 * - `collector`: the collector gave the stretch up.
 * - `resourceslices` and private nodes: closed windows left out what exceeds the limit.
 */
const NEVER_FILLED = ['metrics', 'collector', 'resourceslices', PRIVATE_NODES_SOURCE];

/**
 * Sources with a scope of one tenant cluster. All others fail for a namespace, and for every tenant
 * in it.
 */
const OF_ONE_CLUSTER = [TENANT_API, 'prometheus'];

/**
 * Returns whether usage of a tenant may still come from a gap, so that its offboarding must wait.
 * 1. A gap of a tenant cluster affects the tenants that it was billed to, also after its end.
 * 2. A gap of a broad scope, such as all pods, or of an unknown scope may hide usage of every
 *    tenant.
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

/** Tenants to whom the usage in a gap may be billed; empty if unknown. */
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
