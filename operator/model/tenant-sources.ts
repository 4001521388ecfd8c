/** Kinds of tenants that discovery can look for, as settings spell them; operator/discovery/registry.ts implements each. */
export const TENANT_SOURCES = [
  'vcluster',
  'k3k',
  'kamaji',
  'hypershift',
  'cluster-api',
  'namespaces',
] as const;

export type TenantSourceName = (typeof TENANT_SOURCES)[number];
