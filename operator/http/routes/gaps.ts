import { gapScopeOf } from '../../metering/meters/meters.ts';
import { bearsOn, clip, forTenant, type GapGroup, groupGaps } from '../gap-groups.ts';
import type { TimeRange } from '../../model/window.ts';
import { isoTime } from '../presentation.ts';
import { RANGE_PARAMETERS, readQuery, readTimeRange } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import type { Gap } from '../views.ts';
import { tenantOf } from '../scope.ts';
import { measuredSince } from './usage.ts';

/** GET /api/v1/gaps: what was not measured in a range, by cause and time. */
export function gapsRoute(context: RouteContext): Route {
  const { views, clock } = context;
  return {
    method: 'get',
    path: '/api/v1/gaps',
    access: 'read',
    hub: 'all',
    tenantScope: 'filtered',
    summary: 'what was not measured, by cause and time, of all or of one tenant',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, [...RANGE_PARAMETERS, 'tenant', 'metric']);
        const range = readTimeRange(query, clock.now());
        const [tenant, metric] = [query.get('tenant'), query.get('metric')];
        const owners = ownersOf(context);
        const mine = new Set([...owners.keys()].filter((id) => isWanted(owners.get(id), tenant)));
        const concerns = (gap: Gap): boolean => {
          if (tenant !== undefined && owners.has(gap.scope) && !mine.has(gap.scope)) return false;
          return metric === undefined || bearsOn(gap, gapScopeOf(metric), mine);
        };
        const all = [...views.metering.gaps(), ...views.metering.pastGaps()];
        const isTenant = tenantOf(request) !== undefined;
        const stored = isTenant ? all.flatMap((gap) => forTenant(gap, mine) ?? []) : all;
        const groups = shownGroups(context, stored.filter(concerns), range);
        response.json({
          from: isoTime(range.from),
          to: isoTime(range.to),
          measured_since: isoTime(await measuredSince(context)),
          open: groups.filter(({ open }) => open),
          ended: groups.filter(({ open }) => !open),
        });
      },
    ],
  };
}

/** The gaps of a range as a tenant may read them, in groups as the route shows them. */
export function gapsOfTenant(
  context: RouteContext,
  range: TimeRange,
  tenant: string,
): readonly object[] {
  const { metering } = context.views;
  const mine = new Set([...ownersOf(context)].flatMap(([id, of]) => (of === tenant ? [id] : [])));
  const all = [...metering.gaps(), ...metering.pastGaps()];
  return shownGroups(
    context,
    all.flatMap((gap) => forTenant(gap, mine) ?? []),
    range,
  );
}

/** The tenant of each tenant cluster, by its id. */
function ownersOf({ views }: RouteContext): ReadonlyMap<string, string> {
  return new Map(views.discovery.clusters().map(({ id, tenant }) => [id, tenant]));
}

function shownGroups(context: RouteContext, gaps: readonly Gap[], range: TimeRange) {
  const owners = ownersOf(context);
  const clipped = gaps.flatMap((gap) => clip(gap, range) ?? []);
  const groups = groupGaps(clipped, context.ledger.stats().lastWindowEnd);
  return groups.map((group) => showGroup(group, owners));
}

function isWanted(owner: string | undefined, tenant: string | undefined): boolean {
  return tenant === undefined || owner === tenant;
}

function showGroup(group: GapGroup, owners: ReadonlyMap<string, string>) {
  const { source, reason, reasons, open, gaps, scopes, scopeCount, from, to, lasted } = group;
  const tenants = scopes.flatMap((scope) => owners.get(scope) ?? []);
  return {
    source,
    reason,
    reasons,
    open,
    gaps,
    scopes,
    scope_count: scopeCount,
    tenants: [...new Set(tenants)],
    from: isoTime(from),
    to: isoTime(to),
    seconds: lasted / 1000,
    stretches: group.stretches.map((one) => ({ from: isoTime(one.from), to: isoTime(one.to) })),
  };
}
