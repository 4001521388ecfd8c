import { MOST_ITEMS, type MeterFacts } from './fleet/meter-report.ts';
import type { StreamWatch } from './fleet/stream-watch.ts';
import type {
  DiscoveryView,
  MeteringView,
  ReadinessCheck,
  UnattributedView,
  WindowReportView,
} from '../http/views.ts';
import type { HeldUsage } from '../billing/held-usage/ledger-held-usage.ts';
import { mergeFailures } from '../tenant-api/tenant-api.ts';
import { TENANT_API } from '../metering/windows/tenant-scopes.ts';
import type { WindowReport } from '../metering/windows/window-report.ts';
import type { BuildContext } from './build-context.ts';
import type { ClusterView } from './cluster-view.ts';
import type { Metering } from './metering.ts';

/** The state of a stream's meter, in its own process or read from its records. */
export interface KnownMeter<Report = MeterFacts | undefined> extends DiscoveryView, MeteringView {
  /** The meter's report with shortened lists; undefined before the first one. */
  readonly report: () => Report;
  /** Milliseconds since the last new report; undefined before the first one. */
  silentMs(): number | undefined;
}

/** The meter of this process. */
export function localMeter(
  { version, environment, settings, customResources }: BuildContext,
  known: {
    readonly cluster: ClusterView;
    readonly metering: Metering;
    readonly held: Pick<HeldUsage, 'pushedTenants'>;
    readonly readiness: () => readonly ReadinessCheck[];
  },
): KnownMeter<MeterFacts> {
  const { cluster, metering, held } = known;
  const { discovery, tenantApis } = cluster;
  const { windows } = metering;
  const failedTenantApis = () => mergeFailures(windows.quarantinedTenants(), tenantApis.failures());
  const withoutKubeconfig = () => tenantApis.withoutKubeconfig();
  const problems = () => attributionProblems({ discovery, windows });
  return {
    known: () => discovery.known(),
    lookedAt: () => discovery.lookedAt(),
    tenants: () => {
      const { region } = settings.current().identity;
      const pushed = held.pushedTenants().map(({ id, since }) => {
        return { id, displayName: id, region, clusters: [], createdAt: since };
      });
      return [...discovery.tenants(), ...pushed];
    },
    clusters: () => discovery.clusters(),
    problems,
    failedTenantApis,
    withoutKubeconfig,
    metricsFailure: () => windows.metricsFailure,
    unattributed: () => lastUnattributed(windows),
    gaps: metering.gaps,
    pastGaps: () => windows.pastGaps(),
    windows: () => windows.reports().map(reportView),
    silentMs: () => 0,
    report: () => {
      const current = settings.current().metering;
      const waiting = known.readiness().filter(({ ok }) => !ok);
      return {
        version,
        role: environment.role,
        ready: waiting.length === 0,
        waitsFor: waiting.map(({ name, detail = name }) => detail),
        windowMs: current.windowMs,
        ownDestinations: customResources.destinations().map(({ name }) => name),
        tenants: discovery.tenants().length,
        tenantClusters: discovery.clusters().length,
        customMetrics: current.customMetrics,
        measuredMetrics: metering.catalog().metrics.filter(({ source }) => source === 'prometheus'),
        gaps: metering.gaps().length,
        failedTenantApis: firstOf(failedTenantApis()),
        withoutKubeconfig: firstOf(withoutKubeconfig()),
        unattributed: lastUnattributed(windows),
        problems: problems().slice(0, MOST_ITEMS),
        metricsFailure: windows.metricsFailure,
      };
    },
  };
}

/** The meter of another process, from the records beside the events of its stream. */
export function recordedMeter(watch: StreamWatch): KnownMeter {
  return {
    known: () => watch.report() !== undefined,
    lookedAt: () => undefined,
    tenants: () => watch.tenants(),
    clusters: () => watch.clusters(),
    problems: () => watch.report()?.problems ?? [],
    failedTenantApis: () => watch.report()?.failedTenantApis.items ?? [],
    withoutKubeconfig: () => watch.report()?.withoutKubeconfig.items ?? [],
    metricsFailure: () => watch.report()?.metricsFailure,
    unattributed: () => watch.report()?.unattributed ?? NOTHING_UNATTRIBUTED,
    gaps: () => watch.gaps(),
    pastGaps: () => watch.pastGaps(),
    windows: () => watch.windows().map(reportView),
    silentMs: () => watch.silentMs(),
    report: () => watch.report(),
  };
}

const NOTHING_UNATTRIBUTED: UnattributedView = {
  total: 0,
  items: [],
  gpuSeconds: 0,
  gpuObjects: 0,
};

function firstOf<T>(all: readonly T[]): { readonly total: number; readonly items: readonly T[] } {
  return { total: all.length, items: all.slice(0, MOST_ITEMS) };
}

type LastReports = Pick<Metering['windows'], 'lastReport'>;

/** Usage without a tenant to bill, in the last window that measured GPUs. */
function lastUnattributed(windows: LastReports): UnattributedView {
  const { unattributed } = windows.lastReport('gpus') ?? {};
  if (unattributed === undefined) return NOTHING_UNATTRIBUTED;
  const { total, items, gpus } = unattributed;
  return { total, items, gpuSeconds: gpus?.seconds ?? 0, gpuObjects: gpus?.objects ?? 0 };
}

/**
 * Problems of attribution: those of discovery, nodes that several tenant clusters claimed in the
 * last window with nodes, and private nodes to check.
 */
export function attributionProblems({
  discovery,
  windows,
}: {
  readonly discovery: { problems(): readonly string[] };
  readonly windows: LastReports;
}): readonly string[] {
  const contested = (windows.lastReport('gpus')?.contestedNodes ?? []).map(
    ({ node, tenantClusters }) =>
      `node claimed by several tenant clusters: ${node}: "${tenantClusters.join(', ')}": it is dedicated to none of them and its pods are billed as shared; leave the labels of one`,
  );
  const own = windows.lastReport(TENANT_API)?.privateNodeProblems ?? [];
  return [...discovery.problems(), ...contested, ...own];
}

function reportView(report: WindowReport): WindowReportView {
  const { windowStart, windowEnd, events, gaps, ...details } = report;
  return { start: Date.parse(windowStart), end: Date.parse(windowEnd), events, gaps, details };
}
