import type { SettingsStore } from '../config/settings.ts';
import type {
  DeliveryView,
  EnforcementView as EnforcementStatusView,
  TenantsView,
  WindowsView as WindowsStatusView,
} from '../controllers/views.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { Enforcement } from '../enforcement/enforcement.ts';
import type { Explanations } from '../explanations/explanations.ts';
import type { ReadinessCheck, Views } from '../http/views.ts';
import type { Projected, Source } from '../kubernetes/source.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { FailedTenantApi } from '../tenant-api/tenant-api.ts';
import type { Catalog } from '../model/catalog.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Gap } from '../windows/gaps.ts';
import type { DestinationWatches } from './destination-watches.ts';
import type { WindowReport } from '../windows/window-report.ts';
import type { WindowsView } from '../windows/collector.ts';
import { attributionProblems } from './attribution-problems.ts';

/** The engine, as far as it is shown to anybody. */
export interface Engine {
  readonly settings: SettingsStore;
  readonly catalog: () => Catalog;
  readonly ledger: Ledger;
  readonly discovery: Discovery;
  readonly windows: WindowsView;
  /** Of the windows and of Prometheus. */
  readonly gaps: () => readonly Gap[];
  readonly explanations: Pick<Explanations, 'find'>;
  /** What Prometheus is asked for an event that it measured; undefined for all others. */
  readonly question: (event: UsageEvent) => { readonly promql?: string } | undefined;
  readonly delivery: Delivery;
  readonly destinationWatches: DestinationWatches;
  readonly enforcement: Enforcement;
  readonly watches: readonly Pick<Source<Projected>, 'health' | 'resource'>[];
  /** Tenant clusters whose own API cannot be read, and why (spec 1.1). */
  readonly failedTenantApis: () => readonly FailedTenantApi[];
  /** Not in the course of stopping. */
  readonly running: () => boolean;
  readonly leading: () => boolean;
}

/** What the HTTP API shows. */
export function httpViews(engine: Engine): Views {
  const { settings, discovery, windows, delivery } = engine;
  return {
    settings: () => settings.current(),
    catalog: engine.catalog,
    discovery: { ...discovery, problems: () => attributionProblems(engine) },
    metering: {
      failedTenantApis: engine.failedTenantApis,
      gaps: engine.gaps,
      metricsFailure: () => windows.metricsFailure,
      windows: () => windows.reports().map(reportView).toReversed(),
    },
    explanations: {
      find: async (event) => {
        const question = engine.question(event);
        return question === undefined
          ? engine.explanations.find(event)
          : { kind: 'asked', ...question };
      },
    },
    destinations: {
      ...delivery,
      list: () =>
        delivery
          .statuses()
          .map((status) => ({ ...status, ...engine.destinationWatches.noticedOf(status) })),
    },
    enforcement: engine.enforcement,
    readiness: () => readiness(engine),
  };
}

/** What the status of the custom resources shows. */
export function controllerViews(engine: Engine): {
  readonly delivery: DeliveryView;
  readonly tenants: TenantsView;
  readonly windows: WindowsStatusView;
  readonly enforcement: EnforcementStatusView;
} {
  const { settings, discovery, windows, delivery, enforcement } = engine;
  return {
    enforcement: { mode: () => settings.current().enforcement.mode, status: enforcement.status },
    delivery: {
      list: () =>
        delivery.statuses().map(({ cursorWindowEnd, ...status }) => ({
          ...status,
          ...engine.destinationWatches.noticedOf(status),
          ...(cursorWindowEnd === undefined ? {} : { windowEnd: cursorWindowEnd }),
        })),
    },
    tenants: { ...discovery, problems: () => attributionProblems(engine) },
    windows: {
      lastWindowEnd: () => windows.lastWindow?.end,
      gaps: engine.gaps,
      failedTenantApis: engine.failedTenantApis,
      metricsFailure: () => windows.metricsFailure,
    },
  };
}

/** Ready once the first lists are in and tenant clusters are known; later trouble shows in status, not here. */
function readiness({
  running,
  leading,
  watches,
  discovery,
  ledger,
}: Engine): readonly ReadinessCheck[] {
  const starting = watches.filter((watch) => watch.health().state === 'starting');
  const { disk } = ledger.stats();
  return [
    { name: 'running', ok: running(), detail: running() ? 'yes' : 'stopping' },
    {
      name: 'leader',
      ok: leading(),
      ...(!leading() && { detail: 'waiting for the lease: another process may hold it' }),
    },
    {
      name: 'watches',
      ok: starting.length === 0,
      ...(starting.length > 0 && {
        detail: `not listed yet: ${starting.map(({ resource }) => resource.plural).join(', ')}`,
      }),
    },
    {
      name: 'discovery',
      ok: discovery.known(),
      ...(!discovery.known() && { detail: 'waiting for the first successful discovery' }),
    },
    { name: 'ledger', ok: disk.level !== 'collector-paused', detail: `disk: ${disk.level}` },
  ];
}

function reportView(report: WindowReport) {
  const { windowStart, windowEnd, events, gaps, ...details } = report;
  return { start: Date.parse(windowStart), end: Date.parse(windowEnd), events, gaps, details };
}
