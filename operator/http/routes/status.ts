import type { HttpSettings, Settings } from '../../settings/settings.ts';
import type { MarkingStatus } from '../../billing/enforcement/marks/marking.ts';
import type { LedgerStats } from '../../ledger/ledger.ts';
import { goDuration, isoTime, showGap } from '../presentation.ts';
import { readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import type { UnattributedView } from '../views.ts';
import { showDestinations } from './destination-answer.ts';

/** GET /api/v1/status: the state of the operator, and all of its problems. */
export function statusRoute({ version, views, ledger, clock }: RouteContext): Route {
  return {
    method: 'get',
    path: '/api/v1/status',
    access: 'read',
    hub: 'all',
    summary: 'version, last window, destinations, ledger, failed tenant APIs, gaps',
    handlers: [
      (request, response) => {
        readQuery(request, []);
        const settings = views.settings();
        const stats = ledger.stats();
        const destinations = views.destinations.list();
        response.json({
          version,
          region: settings.identity.region,
          cluster: settings.identity.clusterName,
          time: isoTime(clock.now()),
          ready: views.readiness().every((check) => check.ok),
          adapters: destinations.flatMap((one) =>
            one.problem?.inForce === false ? [] : [one.name],
          ),
          window: goDuration(settings.metering.windowMs),
          window_seconds: settings.metering.windowMs / 1000,
          last_window_end: isoTime(stats.lastWindowEnd),
          enforcement_mode: settings.enforcement.mode,
          enforcement: showEnforcement(views.enforcement?.status() ?? UNMARKED),
          tenants: views.discovery.tenants().length,
          tenant_clusters: views.discovery.clusters().length,
          held_events: (views.held?.list() ?? []).reduce((sum, { events }) => sum + events, 0),
          discovery_problems: views.discovery.problems(),
          failed_tenant_apis: views.metering
            .failedTenantApis()
            .map(({ tenantCluster, reason, since }) => ({
              tenant_cluster: tenantCluster,
              reason,
              since: isoTime(since),
            })),
          without_kubeconfig: firstOf(views.metering.withoutKubeconfig()),
          unattributed: showUnattributed(views.metering.unattributed()),
          metrics_api_failure: showFailure(views.metering.metricsFailure()),
          gaps: views.metering.gaps().map(showGap),
          ledger: { ...showLedger(stats, ledger.lowWater()), cursors: cursors(ledger.cursors()) },
          destinations: showDestinations(views.destinations, stats.sequence),
          warnings: [...warnings(settings, settings.http)],
        });
      },
    ],
  };
}

/** Tenant clusters in a list. Usually most have no private nodes, and there may be thousands. */
const MOST_ITEMS = 100;

function firstOf(items: readonly string[]) {
  return { total: items.length, items: items.slice(0, MOST_ITEMS) };
}

function showUnattributed({ total, items, gpuSeconds }: UnattributedView) {
  return { total, items, gpu_seconds: gpuSeconds };
}

function showFailure(failure: { readonly reason: string; readonly since: number } | undefined) {
  return failure && { reason: failure.reason, since: isoTime(failure.since) };
}

/** The status of a hub, which marks no objects. */
const UNMARKED: MarkingStatus = { suspendedClusters: [], pending: 0, problems: [] };

function showEnforcement({ suspendedClusters, pending, problems }: MarkingStatus) {
  return { suspended_tenant_clusters: suspendedClusters, pending_objects: pending, problems };
}

function showLedger(stats: LedgerStats, lowWater: number) {
  const { disk } = stats;
  return {
    committed: stats.sequence,
    first_seq: Math.min(lowWater + 1, stats.sequence),
    segments: stats.segments,
    bytes: stats.bytes,
    chain: stats.chain,
    conflicts: stats.conflicts,
    problems: stats.problems,
    oldest_at: isoTime(stats.oldestAt),
    watermarks: { collector: isoTime(stats.lastWindowEnd) },
    disk: {
      level: disk.level,
      used_ratio: disk.usedRatio,
      retention_shortened: disk.retentionShortened,
    },
  };
}

function cursors(all: readonly { readonly destination: string; readonly sequence: number }[]) {
  return Object.fromEntries(all.map(({ destination, sequence }) => [destination, sequence]));
}

/** Warnings about the configuration itself. */
function* warnings(settings: Settings, http: HttpSettings): Generator<string> {
  const hasPortal = http.portalKeys.length > 0 || http.portalKeysFile !== undefined;
  if (http.apiTokens.length === 0 && http.apiTokenFile === undefined) {
    yield hasPortal
      ? 'API_TOKEN is not set: only tenants can read, and no portal token can be created'
      : 'API_TOKEN is not set: everyone who reaches this address can read; changes are disabled';
  }
  if (settings.identity.region === 'default') {
    yield 'REGION is "default": it is part of every event id and must be unique per control plane';
  }
}
