import { goDuration, isoTime } from '../presentation.ts';
import { readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import type { FleetStreamView } from '../views.ts';

/** GET /api/v1/fleet: every stream with the report of its meter, its lag and its problems. */
export function fleetRoute({ views }: RouteContext): Route {
  return {
    method: 'get',
    path: '/api/v1/fleet',
    access: 'read',
    hub: 'all',
    summary: 'the clusters of the fleet: versions, last windows, lag, gaps, failed tenant APIs',
    handlers: [
      (request, response) => {
        readQuery(request, []);
        const role = views.settings().role;
        response.json({ role, streams: views.fleet().map(showStream) });
      },
    ],
  };
}

function showStream(stream: FleetStreamView) {
  const { report } = stream;
  return {
    cluster: stream.cluster,
    region: stream.region,
    problem: stream.problem,
    events: stream.events,
    last_window_end: isoTime(stream.lastWindowEnd),
    lag_records: stream.lagEvents,
    lag_seconds: stream.lagSeconds,
    meter: report && {
      version: report.version,
      role: report.role,
      ready: report.ready,
      waits_for: report.waitsFor,
      reported_seconds_ago: Math.round(report.reportedMsAgo / 1000),
      window: goDuration(report.windowMs),
      tenants: report.tenants,
      tenant_clusters: report.tenantClusters,
      gaps: report.gaps,
      failed_tenant_apis: report.failedTenantApis,
      unattributed: report.unattributed,
    },
  };
}
