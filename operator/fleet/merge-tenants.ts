import type { Tenant } from '../model/tenant.ts';

/**
 * One customer out of a tenant as the streams have it: as where it is oldest, with the tenant clusters of all. Which of
 * equally old ones counts is the same wherever it is asked, as long as the order of streams is.
 */
export function mergeTenants(all: readonly (readonly Tenant[])[]): ReadonlyMap<string, Tenant> {
  const merged = new Map<string, Tenant>();
  for (const tenant of all.flat()) {
    const before = merged.get(tenant.id);
    if (before === undefined) {
      merged.set(tenant.id, tenant);
      continue;
    }
    const oldest = tenant.createdAt < before.createdAt ? tenant : before;
    const clusters = [...new Set([...before.clusters, ...tenant.clusters])].toSorted();
    merged.set(tenant.id, { ...oldest, clusters });
  }
  return merged;
}
