import { destinationSummary } from '../../controllers/destination-status.ts';
import type { Delivery } from '../../delivery/delivery.ts';
import type { TenantBillingState } from '../../enforcement/enforcement.ts';
import type { StreamWatch } from '../../fleet/stream-watch.ts';
import type { FleetStreamView, Views } from '../../http/views.ts';
import type { StreamName } from '../../ledger/fleet.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Catalog } from '../../model/catalog.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { reportView } from '../views.ts';
import type { HubContext } from './hub-context.ts';
import { NOT_OF_A_HUB } from './not-of-a-hub.ts';

/** A stream of a hub, as far as it is shown. */
export interface ViewedStream {
  readonly name: StreamName;
  readonly ledger: Ledger;
  readonly watch: StreamWatch;
  readonly delivery: Delivery;
  readonly billingState: (tenant: string) => TenantBillingState;
  /** Names of destinations of the hub that the meter has, too, and feeds itself. */
  readonly fedByMeter: () => readonly string[];
}

/** Longer than this without a word of its meter is worth saying. */
const SILENT_MS = 30_000;

/** What the HTTP API shows of one stream of a hub: what its records say, and how the hub feeds it. */
export function streamViews(
  { settings, environment }: HubContext,
  unit: ViewedStream,
  catalog: () => Catalog,
): Views {
  const { watch, delivery, name } = unit;
  const identity = {
    ...environment.identity,
    clusterName: name.source,
    region: name.region,
  };
  return {
    ...NOT_OF_A_HUB,
    settings: () => {
      const current = settings.current();
      const windowMs = watch.report()?.windowMs ?? current.metering.windowMs;
      return { ...current, identity, metering: { ...current.metering, windowMs } };
    },
    catalog,
    pricesKnown: () => true,
    discovery: {
      known: () => watch.report() !== undefined,
      lookedAt: () => undefined,
      tenants: () => watch.tenants(),
      clusters: () => watch.clusters(),
      problems: () => watch.report()?.problems ?? [],
    },
    metering: {
      failedTenantApis: () => watch.report()?.failedTenantApis.items ?? [],
      withoutKubeconfig: () => watch.report()?.withoutKubeconfig.items ?? [],
      metricsFailure: () => watch.report()?.metricsFailure,
      unattributed: () =>
        watch.report()?.unattributed ?? { total: 0, items: [], gpuSeconds: 0, gpuObjects: 0 },
      gaps: () => watch.gaps(),
      pastGaps: () => watch.pastGaps(),
      windows: () => watch.windows().map(reportView),
    },
    destinations: {
      list: () => delivery.statuses(),
      summaryOf: destinationSummary,
      deadLetters: (destination, after, limit) => delivery.deadLetters(destination, after, limit),
      replay: (destination, ids, force) => delivery.replay(destination, ids, force),
      discard: (destination, ids) => delivery.discard(destination, ids),
      moveCursor: (destination, sequence, force) =>
        delivery.moveCursor(destination, sequence, force),
      reconcile: (destination, query, signal) => delivery.reconcile(destination, query, signal),
      comparePrices: (destination, question, signal) =>
        delivery.comparePrices(destination, question, signal),
      correctionOutlook: (destination, stored) => delivery.correctionOutlook(destination, stored),
    },
    enforcement: { ...NOT_OF_A_HUB.enforcement, stateOf: (tenant) => unit.billingState(tenant) },
    fleet: () => [fleetStreamView(unit)],
    readiness: () => readiness(unit),
  };
}

function readiness({ watch }: ViewedStream) {
  const ok = watch.report() !== undefined;
  return [{ name: 'meter', ok, ...(!ok && { detail: 'no meter has told of itself yet' }) }];
}

/** A stream on the page of the fleet. */
export function fleetStreamView(unit: ViewedStream): FleetStreamView {
  const { name, watch, delivery, ledger } = unit;
  const report = watch.report();
  const toldMsAgo = watch.silentMs();
  const { sequence, lastWindowEnd } = ledger.stats();
  const statuses = delivery.statuses();
  return {
    cluster: name.source,
    region: name.region,
    events: sequence,
    lagEvents: Math.max(0, ...statuses.map(({ lagEvents }) => lagEvents)),
    lagSeconds: Math.max(0, ...statuses.map(({ lagSeconds }) => lagSeconds)),
    ...omitUndefined({ lastWindowEnd, problem: problemOf(unit) }),
    ...(report !== undefined &&
      toldMsAgo !== undefined && {
        report: {
          version: report.version,
          role: report.role,
          ready: report.ready,
          waitsFor: report.waitsFor,
          toldMsAgo,
          windowMs: report.windowMs,
          tenants: report.tenants,
          tenantClusters: report.tenantClusters,
          gaps: report.gaps,
          failedTenantApis: report.failedTenantApis.total,
          unattributed: report.unattributed.total,
        },
      }),
  };
}

function problemOf({ watch, fedByMeter }: ViewedStream): string | undefined {
  const role = watch.report()?.role;
  const silentMs = watch.silentMs();
  if (role === undefined) return 'no meter has told of itself yet: it may be of an older release';
  if (silentMs !== undefined && silentMs > SILENT_MS) {
    return `its meter has told nothing for ${Math.round(silentMs / 1000)} s`;
  }
  if (role !== 'meter') {
    return 'its operator feeds destinations itself: this hub feeds it to none; ROLE=meter there changes that';
  }
  const [both] = fedByMeter();
  if (both === undefined) return undefined;
  return `destination: a BillingDestination of its own cluster has the name, and is fed in place of the hub’s: "${both}"; name one of them otherwise, or delete that one`;
}
