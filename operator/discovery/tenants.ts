import { least } from '../model/extremes.ts';
import type { Settings } from '../settings/settings.ts';
import type { DestinationType } from '../model/destination-type.ts';
import { quote } from '../model/quote.ts';
import type { CustomerIds, Tenant } from '../model/tenant.ts';
import { compareBytewise } from '../model/bytewise.ts';
import { defaultDisplayName } from './discover.ts';
import type { TenantCluster } from './tenant-cluster.ts';

/**
 * The billing customers of the tenant clusters, sorted by id. Each detail is the first one given by
 * a cluster of the customer, in the order of their ids. Excluded clusters create no customer.
 */
export function tenantsOf(clusters: readonly TenantCluster[], settings: Settings): Tenant[] {
  const metered = clusters
    .filter(({ excluded }) => !excluded)
    .toSorted((a, b) => compareBytewise(a.id, b.id));
  const tenants = [...Map.groupBy(metered, ({ tenant }) => tenant)]
    .map(([id, own]) => tenant(id, own, settings))
    .toSorted((a, b) => compareBytewise(a.id, b.id));
  return refuseSharedIds(tenants);
}

/**
 * Removes a customer id that several tenants name from all of them. Its owner is unknown, and a
 * guess would bill one for the other (docs/explanation/discovery.md#metadata-keys).
 */
function refuseSharedIds(tenants: readonly Tenant[]): Tenant[] {
  const namedBy = new Map<string, number>();
  for (const { customerIds = {} } of tenants) {
    for (const named of Object.entries(customerIds).map(customerKey)) {
      namedBy.set(named, (namedBy.get(named) ?? 0) + 1);
    }
  }
  return tenants.map((each) => {
    const { customerIds = {}, ...others } = each;
    const isShared = (id: readonly [DestinationType, string]): boolean =>
      (namedBy.get(customerKey(id)) ?? 0) > 1;
    const ids = Object.entries(customerIds);
    const shared = ids.filter(isShared);
    if (shared.length === 0) return each;
    const unshared = ids.filter((id) => !isShared(id));
    return {
      ...others,
      ...(unshared.length > 0 && { customerIds: Object.fromEntries(unshared) }),
      sharedCustomerIds: Object.fromEntries(shared),
    };
  });
}

function customerKey([type, id]: readonly [DestinationType, string]): string {
  return JSON.stringify([type, id]);
}

/** Most tenants in one problem line. */
const MOST_NAMED = 5;
const FIX_SHARED =
  'name it for one tenant only; tenant clusters that one customer pays for need the same key tenant';

/** One line for each customer id that {@link tenantsOf} refused. */
export function sharedIdProblems(tenants: readonly Tenant[]): string[] {
  const claims = tenants.flatMap(({ id: tenant, sharedCustomerIds = {} }) =>
    Object.entries(sharedCustomerIds).map(([type, id]) => ({ type, id, tenant })),
  );
  const byId = Map.groupBy(claims, ({ type, id }) => customerKey([type, id]));
  return [...byId.values()].flatMap((claimed) => {
    const [first] = claimed;
    if (first === undefined) return [];
    const who = claimed.map(({ tenant }) => quote(tenant)).slice(0, MOST_NAMED);
    const more = claimed.length > who.length ? ` and ${claimed.length - who.length} more` : '';
    return [
      `${first.type} customer id of several tenants, refused for all: ${who.join(', ')}${more}: ${quote(first.id)}; ${FIX_SHARED}`,
    ];
  });
}

function tenant(id: string, clusters: readonly TenantCluster[], settings: Settings): Tenant {
  const { region, defaultTenantClass } = settings.identity;
  const first = <T>(pick: (cluster: TenantCluster) => T | undefined): T | undefined =>
    clusters.map(pick).find((value) => value !== undefined);
  return {
    id,
    displayName: displayNameOf(id, clusters),
    email: first(({ email }) => email),
    project: first(({ project }) => project),
    // The class of one cluster comes before the default of another.
    tenantClass:
      first(({ tenantClass }) => (tenantClass === defaultTenantClass ? undefined : tenantClass)) ??
      defaultTenantClass,
    plan: first(({ plan }) => plan),
    planChange: first(({ planChange }) => planChange),
    currency: first(({ currency }) => currency),
    costCenter: first(({ costCenter }) => costCenter),
    customerIds: firstIds(clusters.map(({ customerIds }) => customerIds)),
    subscriptionIds: firstIds(clusters.map(({ subscriptionIds }) => subscriptionIds)),
    billing: first(({ billing }) => billing),
    region,
    clusters: clusters.map((cluster) => cluster.id),
    createdAt: least(clusters.map(({ createdAt }) => createdAt)),
  };
}

/** For each billing system the first given id. */
function firstIds(given: readonly (CustomerIds | undefined)[]): CustomerIds | undefined {
  const ids: Record<DestinationType, string> = {};
  for (const one of given) {
    for (const [type, id] of Object.entries(one ?? {})) ids[type] ??= id;
  }
  return Object.keys(ids).length === 0 ? undefined : ids;
}

/** A given name; else the cluster's name for a customer with one cluster; else the id. */
function displayNameOf(id: string, clusters: readonly TenantCluster[]): string {
  const given = clusters.find(
    (cluster) => cluster.displayName !== defaultDisplayName(placeOf(cluster)),
  );
  if (given !== undefined) return given.displayName;
  const [only, ...others] = clusters;
  return only !== undefined && others.length === 0 && only.id === id ? only.displayName : id;
}

function placeOf({ namespace, home = namespace, name }: TenantCluster) {
  return { namespace: home, name };
}
