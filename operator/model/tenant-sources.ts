/**
 * Kinds of tenants that discovery supports, as in settings; operator/discovery/registry.ts
 * implements each.
 */
export const TENANT_SOURCES = [
  'vcluster',
  'k3k',
  'kamaji',
  'hypershift',
  'cluster-api',
  'namespaces',
] as const;

export type TenantSourceName = (typeof TENANT_SOURCES)[number];
