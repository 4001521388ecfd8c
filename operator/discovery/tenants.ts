import { omitUndefined } from '../model/omit-undefined.ts';
import type { Settings } from '../config/settings.ts';
import type { DestinationType } from '../model/destination-type.ts';
import type { CustomerIds, Tenant } from '../model/tenant.ts';
import { compareBytewise } from '../model/bytewise.ts';
import { defaultDisplayName } from './discover.ts';
import type { TenantCluster } from './tenant-cluster.ts';

/**
 * The billing customers that tenant clusters belong to, sorted by id. Each detail is the first that
 * one of the customer's clusters gives, in the order of their ids. Clusters that are not metered
 * make no customer.
 */
export function tenantsOf(clusters: readonly TenantCluster[], settings: Settings): Tenant[] {
  const metered = clusters
    .filter(({ excluded }) => !excluded)
    .toSorted((a, b) => compareBytewise(a.id, b.id));
  return [...Map.groupBy(metered, ({ tenant }) => tenant)]
    .map(([id, own]) => tenant(id, own, settings))
    .toSorted((a, b) => compareBytewise(a.id, b.id));
}

function tenant(id: string, clusters: readonly TenantCluster[], settings: Settings): Tenant {
  const { region, defaultTenantClass } = settings.identity;
  const first = <T>(pick: (cluster: TenantCluster) => T | undefined): T | undefined =>
    clusters.map(pick).find((value) => value !== undefined);
  return {
    id,
    displayName: displayNameOf(id, clusters),
    ...omitUndefined({
      email: first(({ email }) => email),
      project: first(({ project }) => project),
      // A class that a cluster was given counts before the default of one that was not.
      tenantClass:
        first(({ tenantClass }) =>
          tenantClass === defaultTenantClass ? undefined : tenantClass,
        ) ?? defaultTenantClass,
      plan: first(({ plan }) => plan),
      currency: first(({ currency }) => currency),
      costCenter: first(({ costCenter }) => costCenter),
      customerIds: customerIdsOf(clusters),
    }),
    region,
    clusters: clusters.map((cluster) => cluster.id),
    createdAt: Math.min(...clusters.map(({ createdAt }) => createdAt)),
  };
}

/** For each billing system the id of the first that gives one. */
function customerIdsOf(clusters: readonly TenantCluster[]): CustomerIds | undefined {
  const ids: Record<DestinationType, string> = {};
  for (const { customerIds = {} } of clusters) {
    for (const [type, id] of Object.entries(customerIds)) ids[type] ??= id;
  }
  return Object.keys(ids).length === 0 ? undefined : ids;
}

/** A given name; else the cluster's own for a customer that is one cluster, else the customer's id. */
function displayNameOf(id: string, clusters: readonly TenantCluster[]): string {
  const given = clusters.find((cluster) => cluster.displayName !== defaultDisplayName(cluster));
  if (given !== undefined) return given.displayName;
  const [only, ...others] = clusters;
  return only !== undefined && others.length === 0 && only.id === id ? only.displayName : id;
}
