import { gapScopeOf } from '../../metering/meters/meters.ts';
import { bearsOn, clip, forTenant, type GapGroup, groupGaps } from '../gap-groups.ts';
import { isoTime } from '../presentation.ts';
import { RANGE_PARAMETERS, readQuery, readTimeRange } from '../query.ts';
import type { TimeRange } from '../../model/window.ts';
import type { Route, RouteContext } from '../route.ts';
import type { Gap } from '../views.ts';
import { tenantOf } from '../scope.ts';
import { measuredSince } from './usage.ts';

/** GET /api/v1/gaps: what was not measured in a range, by cause and time. */
export function gapsRoute(context: RouteContext): Route {
  const { clock } = context;
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
        const isConfined = tenantOf(request) !== undefined;
        const found = gapsIn(knownGaps(context), { range, tenant, metric, isConfined });
        response.json({
          from: isoTime(range.from),
          to: isoTime(range.to),
          measured_since: isoTime(await measuredSince(context)),
          ...found,
        });
      },
    ],
  };
}

/** The gaps of a ledger, and what is needed to show them. */
export interface KnownGaps {
  readonly gaps: readonly Gap[];
  readonly clusters: readonly { readonly id: string; readonly tenant: string }[];
  /** The end of the last closed window, milliseconds since the epoch. */
  readonly lastWindowEnd?: number;
}

interface GapsQuery {
  readonly range: TimeRange;
  /** Only gaps that concern this tenant, or this metric. */
  readonly tenant?: string;
  readonly metric?: string;
  /** True for a reader that may read one tenant only: scopes and reasons of others are left out. */
  readonly isConfined: boolean;
}

/** The gaps of a range by cause and time: those that still grow, and those that have ended. */
export function gapsIn(
  { gaps: all, clusters, lastWindowEnd }: KnownGaps,
  { range, tenant, metric, isConfined }: GapsQuery,
) {
  const owners = new Map(clusters.map(({ id, tenant: of }) => [id, of]));
  const mine = new Set([...owners.keys()].filter((id) => isWanted(owners.get(id), tenant)));
  const concerns = (gap: Gap): boolean => {
    if (tenant !== undefined && owners.has(gap.scope) && !mine.has(gap.scope)) return false;
    return metric === undefined || bearsOn(gap, gapScopeOf(metric), mine);
  };
  const stored = isConfined ? all.flatMap((gap) => forTenant(gap, mine) ?? []) : all;
  const gaps = stored.filter(concerns).flatMap((gap) => clip(gap, range) ?? []);
  const groups = groupGaps(gaps, lastWindowEnd).map((group) => showGroup(group, owners));
  return {
    open: groups.filter(({ open }) => open),
    ended: groups.filter(({ open }) => !open),
  };
}

/** The gaps that this process knows. */
export function knownGaps({
  views,
  ledger,
}: {
  readonly views: Pick<RouteContext['views'], 'metering' | 'discovery'>;
  readonly ledger: Pick<RouteContext['ledger'], 'stats'>;
}): KnownGaps {
  return {
    gaps: [...views.metering.gaps(), ...views.metering.pastGaps()],
    clusters: views.discovery.clusters(),
    lastWindowEnd: ledger.stats().lastWindowEnd,
  };
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
