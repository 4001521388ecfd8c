import type { SettingsStore } from '../config/settings.ts';
import { destinationSummary } from '../controllers/destination-status.ts';
import type {
  BillingView,
  EnforcementView as EnforcementStatusView,
  HeldView as HeldStatusView,
  TenantsView,
  WindowsView as WindowsStatusView,
} from '../controllers/views.ts';
import type {
  FleetStreamView,
  ReadinessCheck,
  Unattributed,
  Views,
  WindowReportView,
} from '../http/views.ts';
import type { HeldUsage } from '../ingest/held-usage.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { Tenant } from '../model/tenant.ts';
import { type FailedTenantApi, mergeFailures } from '../tenant-api/tenant-api.ts';
import { TENANT_API } from '../windows/tenant-scopes.ts';
import type { WindowReport } from '../windows/window-report.ts';
import type { ClusterView } from './cluster-view.ts';
import type { Billing } from './delivery.ts';
import type { Metering } from './metering.ts';
import { VERSION } from './process.ts';

/** The engine, as far as it is shown to anybody. */
export interface Engine {
  readonly settings: SettingsStore;
  readonly ledger: Ledger;
  readonly cluster: ClusterView;
  readonly metering: Metering;
  readonly billing: Billing;
  /** Not in the course of stopping. */
  readonly running: () => boolean;
  /** Its Lease is renewed. */
  readonly mayAct: () => boolean;
}

/** What the HTTP API shows. */
export function httpViews(
  engine: Engine,
  { pricesKnown, budgets, credits }: Pick<Views, 'pricesKnown' | 'budgets' | 'credits'>,
): Views {
  const { settings, metering } = engine;
  const { discovery } = engine.cluster;
  const { delivery, noticedOf, enforcement, held } = engine.billing;
  const { windows } = metering;
  return {
    held,
    settings: () => settings.current(),
    catalog: metering.catalog,
    pricesKnown,
    discovery: {
      known: () => discovery.known(),
      lookedAt: () => discovery.lookedAt(),
      tenants: () => [
        ...discovery.tenants(),
        ...pushedTenants(held, settings.current().identity.region),
      ],
      clusters: () => discovery.clusters(),
      problems: () => attributionProblems({ discovery, windows }),
    },
    metering: {
      failedTenantApis: () => failedTenantApis(engine),
      withoutKubeconfig: () => engine.cluster.tenantApis.withoutKubeconfig(),
      gaps: metering.gaps,
      pastGaps: () => windows.pastGaps(),
      metricsFailure: () => windows.metricsFailure,
      unattributed: () => lastUnattributed(windows),
      windows: () => windows.reports().map(reportView),
    },
    explanations: {
      find: async (event) => {
        const question = metering.question(event);
        return question === undefined
          ? metering.explanations.find(event)
          : { kind: 'asked', ...question };
      },
    },
    destinations: {
      list: () => delivery.statuses().map((status) => ({ ...status, ...noticedOf(status) })),
      summaryOf: destinationSummary,
      deadLetters: (name, after, limit) => delivery.deadLetters(name, after, limit),
      replay: (name, ids, force) => delivery.replay(name, ids, force),
      discard: (name, ids) => delivery.discard(name, ids),
      moveCursor: (name, sequence, force) => delivery.moveCursor(name, sequence, force),
      reconcile: (name, query, signal) => delivery.reconcile(name, query, signal),
      comparePrices: (name, question, signal) => delivery.comparePrices(name, question, signal),
      correctionOutlook: (name, stored) => delivery.correctionOutlook(name, stored),
    },
    enforcement,
    budgets,
    credits,
    fleet: () => [ownStream(engine)],
    readiness: () => readiness(engine),
    leads: () => engine.mayAct() && readiness(engine).every(({ ok }) => ok),
  };
}

/** This operator's own stream, as a hub would show it. */
function ownStream(engine: Engine): FleetStreamView {
  const { identity, metering: measured } = engine.settings.current();
  const { sequence, lastWindowEnd } = engine.ledger.stats();
  const statuses = engine.billing.delivery.statuses();
  const checks = readiness(engine).filter(({ ok }) => !ok);
  const { discovery } = engine.cluster;
  return {
    cluster: identity.clusterName,
    region: identity.region,
    events: sequence,
    lagEvents: Math.max(0, ...statuses.map(({ lagEvents }) => lagEvents)),
    lagSeconds: Math.max(0, ...statuses.map(({ lagSeconds }) => lagSeconds)),
    ...omitUndefined({ lastWindowEnd }),
    report: {
      version: VERSION,
      role: engine.settings.current().role,
      ready: checks.length === 0,
      waitsFor: checks.map(({ name, detail = name }) => detail),
      toldMsAgo: 0,
      windowMs: measured.windowMs,
      tenants: discovery.tenants().length,
      tenantClusters: discovery.clusters().length,
      gaps: engine.metering.gaps().length,
      failedTenantApis: failedTenantApis(engine).length,
      unattributed: lastUnattributed(engine.metering.windows).total,
    },
  };
}

/** Tenants that only pushed usage tells of, as far as it does. */
function pushedTenants(held: Pick<HeldUsage, 'pushedTenants'>, region: string): readonly Tenant[] {
  return held.pushedTenants().map(({ id, since }) => {
    return { id, displayName: id, region, clusters: [], createdAt: since };
  });
}

/** What the status of the custom resources shows. */
export function controllerViews(engine: Engine): {
  readonly delivery: BillingView;
  readonly tenants: TenantsView;
  readonly windows: WindowsStatusView;
  readonly enforcement: EnforcementStatusView;
  readonly held: HeldStatusView;
} {
  const { settings, metering } = engine;
  const { discovery } = engine.cluster;
  const { delivery, noticedOf, enforcement, held } = engine.billing;
  const { windows } = metering;
  return {
    held,
    enforcement: {
      mode: () => settings.current().enforcement.mode,
      status: () => enforcement.status(),
    },
    delivery: {
      backlog: (name) => delivery.status(name)?.backlog,
      list: () =>
        delivery.statuses().flatMap(({ cursorWindowEnd, ...status }) => {
          // Of what cannot start the controllers know more than delivery does.
          if (status.problem?.inForce === false) return [];
          const windowEnd = omitUndefined({ windowEnd: cursorWindowEnd });
          return [{ ...status, ...noticedOf(status), ...windowEnd }];
        }),
    },
    tenants: {
      known: () => discovery.known(),
      clusters: () => discovery.clusters(),
      problems: () => attributionProblems({ discovery, windows }),
      overrides: () => discovery.overrides(),
    },
    windows: {
      lastWindowEnd: () => windows.lastWindow?.end,
      gaps: metering.gaps,
      failedTenantApis: () => failedTenantApis(engine),
      withoutKubeconfig: () => engine.cluster.tenantApis.withoutKubeconfig().length,
      metricsFailure: () => windows.metricsFailure,
      prometheus: () => metering.prometheus(),
      unattributed: () => lastUnattributed(windows),
    },
  };
}

type LastReports = Pick<Engine['metering']['windows'], 'lastReport'>;

/** What the last window in which GPUs were measured found that nobody can be billed for. */
export function lastUnattributed(windows: LastReports): Unattributed {
  const { total, items, gpus } = windows.lastReport('gpus')?.unattributed ?? {
    total: 0,
    items: [],
  };
  return { total, items, gpuSeconds: gpus?.seconds ?? 0, gpuObjects: gpus?.objects ?? 0 };
}

/** Tenant clusters whose own API cannot be read, and those whose windows cannot be closed for what they hold. */
export function failedTenantApis({
  cluster,
  metering,
}: Pick<Engine, 'cluster' | 'metering'>): readonly FailedTenantApi[] {
  return mergeFailures(metering.windows.heldTenants(), cluster.tenantApis.failures());
}

/** What makes it unclear whom something is billed to. */
interface AttributionSources {
  readonly discovery: { problems(): readonly string[] };
  readonly windows: LastReports;
}

/**
 * What discovery found, the nodes that several tenant clusters claimed in the last window that looked at
 * nodes, and what tenants say of nodes of their own that somebody should look at.
 */
export function attributionProblems(sources: AttributionSources): readonly string[] {
  const { discovery, windows } = sources;
  const contested = (windows.lastReport('gpus')?.contestedNodes ?? []).map(
    ({ node, tenantClusters }) =>
      `node claimed by several tenant clusters: ${node}: "${tenantClusters.join(', ')}": it is dedicated to none of them and its pods are billed as shared; leave the labels of one`,
  );
  const own = windows.lastReport(TENANT_API)?.ownNodeProblems ?? [];
  return [...discovery.problems(), ...contested, ...own];
}

/** Ready once the first lists are in and tenant clusters are known; later trouble shows in status, not here. */
function readiness({ running, cluster, ledger }: Engine): readonly ReadinessCheck[] {
  const { watches, discovery } = cluster;
  const starting = watches.all.filter((watch) => watch.health().state === 'starting');
  const { disk } = ledger.stats();
  return [
    { name: 'running', ok: running(), detail: running() ? 'yes' : 'stopping' },
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

/** A report as the API shows it. */
export function reportView(report: WindowReport): WindowReportView {
  const { windowStart, windowEnd, events, gaps, ...details } = report;
  return { start: Date.parse(windowStart), end: Date.parse(windowEnd), events, gaps, details };
}
