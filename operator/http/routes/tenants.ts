import { amountTexts, type BudgetState } from '../../billing/budgets/budget-state.ts';
import { unitText } from '../../billing/budgets/unit.ts';
import type { BillingState } from '../../settings/settings.ts';
import type { AccessCheck } from '../../intake/access-check.ts';
import type { CustomerIds, Tenant } from '../../model/tenant.ts';
import { CUSTOMER_ID_KEYS } from '../../destinations/registry.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { quote } from '../../model/validate-event.ts';
import { Problem, tryLater } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import { isoTime } from '../presentation.ts';
import type { Route, RouteContext } from '../route.ts';
import { tenantOf } from '../scope.ts';
import { TOKENS } from '../../intake/mapping.ts';

/** GET /api/v1/tenants and /api/v1/tenants/{tenant}: who is billed, for which tenant clusters. */
export function tenantRoutes({ views }: RouteContext): readonly Route[] {
  const shown = (tenant: Tenant, names: ReadonlyMap<string, string>) => ({
    ...showTenant(tenant, stateOf(tenant.id)),
    cluster_names: Object.fromEntries(tenant.clusters.map((id) => [id, names.get(id) ?? id])),
    ...showPushed(views, tenant),
  });
  const stateOf = (id: string): BillingState => views.billingState(id).state;
  return [
    {
      method: 'get',
      path: '/api/v1/tenants',
      access: 'read',
      hub: 'all',
      summary: 'the tenants known here',
      handlers: [
        (request, response) => {
          readQuery(request, []);
          const names = clusterNames(views.discovery.clusters());
          const tenants = views.discovery
            .tenants()
            .map((tenant) => shown(tenant, names))
            .toSorted((a, b) => (a.id < b.id ? -1 : 1));
          response.json({ tenants });
        },
      ],
    },
    {
      method: 'get',
      path: '/api/v1/tenants/{tenant}',
      access: 'read',
      hub: 'all',
      tenantScope: 'named',
      summary: 'one tenant with its tenant clusters',
      handlers: [
        (request, response) => {
          readQuery(request, []);
          const id = pathParameter(request, 'tenant');
          const tenant = views.discovery.tenants().find((candidate) => candidate.id === id);
          if (tenant === undefined) {
            throw new Problem(404, `no such tenant: ${quote(id)}: see /api/v1/tenants`);
          }
          const all = views.discovery.clusters();
          const clusters = all.filter((cluster) => cluster.tenant === id);
          const isTenant = tenantOf(request) !== undefined;
          // For a tenant, names are unique among its own clusters only: they reveal nothing of
          // others.
          response.json({
            ...shown(tenant, clusterNames(isTenant ? clusters : all)),
            tenant_clusters: clusters.map(isTenant ? showClusterToTenant : showCluster),
            budget: showBudget(views.budgets?.of(id)),
            gateway_access: showAccess(views.access?.of(id, TOKENS)),
          });
        },
      ],
    },
  ];
}

/**
 * A unique name for each tenant cluster, by id: the display name, then with the name, then with the
 * namespace and name.
 */
function clusterNames(clusters: readonly TenantCluster[]): ReadonlyMap<string, string> {
  const names = [
    ({ displayName }: TenantCluster) => displayName,
    ({ displayName, name }: TenantCluster) => `${displayName}, ${name}`,
    ({ displayName, name, namespace }: TenantCluster) => `${displayName}, ${namespace}/${name}`,
  ].map((nameOf) => ({ nameOf, taken: Map.groupBy(clusters, nameOf) }));
  return new Map(
    clusters.map((cluster) => {
      const unique = names.find(({ nameOf, taken }) => taken.get(nameOf(cluster))?.length === 1);
      return [cluster.id, unique?.nameOf(cluster) ?? cluster.id];
    }),
  );
}

/** A tenant with the field names of the earlier release; unset fields are left out. */
function showTenant(tenant: Tenant, billingState: BillingState) {
  const { costCenter, customerIds } = tenant;
  return {
    id: tenant.id,
    display_name: tenant.displayName,
    email: tenant.email,
    currency: tenant.currency,
    region: tenant.region,
    project: tenant.project,
    class: tenant.tenantClass,
    plan: tenant.plan,
    clusters: tenant.clusters,
    metadata: costCenter === undefined ? undefined : { cost_center: costCenter },
    provider_ids: customerIds === undefined ? undefined : inOrder(customerIds),
    billing_state: billingState,
    created_at: isoTime(tenant.createdAt),
  };
}

/** Marks a tenant that only pushed usage names, with the number of its held events. */
function showPushed({ held }: RouteContext['views'], { id }: Tenant) {
  if (held === undefined || !held.pushedTenants().some((pushed) => pushed.id === id)) return {};
  const waiting = held.list().find(({ tenant }) => tenant === id);
  return { pushed: true, held_events: waiting?.events };
}

function inOrder(customerIds: CustomerIds) {
  return Object.fromEntries([...CUSTOMER_ID_KEYS.keys()].map((type) => [type, customerIds[type]]));
}

/** The state of a budget. `used_up_at` is left out when it is never used up. */
function showBudget(status: BudgetState | undefined) {
  if (status === undefined) return undefined;
  const { budget, period, state, uncounted } = status;
  const usedUpAt = status.usedUpAt();
  return {
    ...amountTexts(status),
    unit: unitText(budget),
    counts: budget.counts.kind,
    period: budget.period.kind,
    period_start: boundary(period.from),
    period_end: boundary(period.to),
    used_up_at: isoTime(usedUpAt),
    at_limit: budget.atLimit,
    state,
    uncounted,
  };
}

/** What AI gateways get as answer for the tenant; left out at a hub, and while it is unknown. */
function showAccess(answer: ReturnType<AccessCheck['of']> | undefined) {
  if (answer === undefined || answer.kind === 'unknown') return undefined;
  return { has_access: answer.hasAccess, reason: answer.reason };
}

/**
 * RFC 3339; undefined for an infinite time. A prepaid balance has no end, and no beginning before
 * the first credit.
 */
function boundary(ms: number): string | undefined {
  return Number.isFinite(ms) ? isoTime(ms) : undefined;
}

/** A tenant cluster as its tenant may read it: without the names of overrides. */
function showClusterToTenant(cluster: TenantCluster) {
  return { ...showCluster(cluster), overrides: [] };
}

function showCluster(cluster: TenantCluster) {
  return {
    id: cluster.id,
    namespace: cluster.home ?? cluster.namespace,
    synced_namespaces: cluster.syncedNamespaces?.map(({ name }) => name),
    name: cluster.name,
    source: cluster.source,
    display_name: cluster.displayName,
    project: cluster.project,
    class: cluster.tenantClass,
    instance: cluster.instance,
    excluded: cluster.excluded,
    enforcement_exempt: cluster.enforcementExempt,
    overrides: cluster.overrides,
    created_at: isoTime(cluster.createdAt),
  };
}

/** Throws 404 for an unknown tenant, 503 until the first discovery pass. */
export function requireTenant({ views }: Pick<RouteContext, 'views'>, id: string): void {
  if (views.discovery.tenants().some((tenant) => tenant.id === id)) return;
  if (!views.discovery.known()) {
    throw tryLater(503, 5, 'waiting for first successful discovery: tenants: try again');
  }
  throw new Problem(404, `no such tenant: ${quote(id)}: see /api/v1/tenants`);
}
