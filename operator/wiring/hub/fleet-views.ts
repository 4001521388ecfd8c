import type { SettingsStore } from '../../config/settings.ts';
import { destinationSummary } from '../../controllers/destination-status.ts';
import type { Backlog } from '../../delivery/destination-status.ts';
import type { DestinationStatusView, Gap, ReadinessCheck, Views } from '../../http/views.ts';
import { compareBytewise } from '../../model/bytewise.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { HubDestinations } from './hub-destinations.ts';
import type { HubStreams } from './hub-streams.ts';
import { newestFirst } from './newest-first.ts';
import { NOT_OF_A_HUB } from './not-of-a-hub.ts';
import { fleetCatalog } from './stream-catalog.ts';
import type { StreamUnit } from './stream-unit.ts';

/** What the HTTP API shows of all streams of a hub together. */
export function fleetViews(
  streams: HubStreams,
  {
    settings,
    destinations,
    running,
  }: {
    readonly settings: SettingsStore;
    readonly destinations: Pick<HubDestinations, 'known'>;
    readonly running: () => boolean;
  },
): Views {
  const all = <T>(list: (views: Views) => readonly T[]): readonly T[] =>
    streams.units().flatMap(({ views }) => list(views));
  const ofEach = (list: (views: Views) => readonly string[]): readonly string[] =>
    streams.units().flatMap(({ source, views }) => list(views).map((text) => `${source}: ${text}`));
  return {
    ...NOT_OF_A_HUB,
    settings: () => settings.current(),
    catalog: () => fleetCatalog(streams.units().map(({ views }) => views.catalog())),
    pricesKnown: () => streams.pricesKnown(),
    discovery: {
      known: () => streams.units().every(({ views }) => views.discovery.known()),
      lookedAt: () => undefined,
      tenants: () => streams.tenants(),
      clusters: () => all((views) => views.discovery.clusters()),
      problems: () => [...streams.problems(), ...ofEach((views) => views.discovery.problems())],
    },
    metering: {
      failedTenantApis: () =>
        streams.units().flatMap(({ source, views }) =>
          views.metering.failedTenantApis().map(({ reason, ...failed }) => {
            return { ...failed, reason: `${source}: ${reason}` };
          }),
        ),
      withoutKubeconfig: () => all((views) => views.metering.withoutKubeconfig()),
      metricsFailure: () => {
        for (const { source, views } of streams.units()) {
          const failure = views.metering.metricsFailure();
          if (failure !== undefined) return { ...failure, reason: `${source}: ${failure.reason}` };
        }
        return undefined;
      },
      unattributed: () => {
        const found = streams.units().map(({ views }) => views.metering.unattributed());
        return {
          total: found.reduce((sum, { total }) => sum + total, 0),
          items: found.flatMap(({ items }) => items).slice(0, 10),
          gpuSeconds: found.reduce((sum, { gpuSeconds }) => sum + gpuSeconds, 0),
          gpuObjects: found.reduce((sum, { gpuObjects }) => sum + gpuObjects, 0),
        };
      },
      gaps: () => streams.units().flatMap((unit) => named(unit, unit.views.metering.gaps())),
      pastGaps: () =>
        streams.units().flatMap((unit) => named(unit, unit.views.metering.pastGaps())),
      windows: () =>
        newestFirst(
          streams.units().map(({ source, views }) =>
            views.metering.windows().map((window) => {
              return { ...window, details: { ...window.details, cluster: source } };
            }),
          ),
        ),
    },
    destinations: {
      list: () => destinationsOfAll(streams.units()),
      summaryOf: destinationSummary,
      deadLetters: async () => undefined,
      replay: async () => ({ kind: 'unknown-destination' }),
      discard: async () => ({ kind: 'unknown-destination' }),
      moveCursor: async () => ({ kind: 'unknown-destination' }),
      reconcile: async () => ({ kind: 'unknown-destination' }),
      comparePrices: async () => ({ kind: 'unknown-destination' }),
      correctionOutlook: async () => undefined,
    },
    enforcement: {
      ...NOT_OF_A_HUB.enforcement,
      stateOf: (tenant) => {
        const states = streams.units().map((unit) => unit.billingState(tenant));
        const worst = states.find(({ state }) => state !== 'active');
        return worst ?? states[0] ?? NOT_OF_A_HUB.enforcement.stateOf(tenant);
      },
    },
    fleet: () => streams.views(),
    readiness: () => readiness(streams, destinations, running),
  };
}

/** A gap with the name of its cluster before its scope, where the scope is none of a tenant cluster. */
function named({ source, views }: StreamUnit, gaps: readonly Gap[]): readonly Gap[] {
  const clusters = new Set(views.discovery.clusters().map(({ id }) => id));
  return gaps.map((gap) =>
    clusters.has(gap.scope) ? gap : { ...gap, scope: `${source}: ${gap.scope}` },
  );
}

/** A destination as it stands over all streams: numbers are sums, and what is wrong anywhere is wrong. */
export function destinationsOfAll(
  units: readonly {
    readonly source: string;
    readonly views: { readonly destinations: Pick<Views['destinations'], 'list'> };
  }[],
): readonly DestinationStatusView[] {
  const found = new Map<string, DestinationStatusView>();
  for (const { source, views } of units) {
    for (const status of views.destinations.list()) {
      const own = {
        ...status,
        ...(status.held !== undefined && { held: `${source}: ${status.held}` }),
        ...(status.lastError !== undefined && { lastError: `${source}: ${status.lastError}` }),
      };
      const before = found.get(status.name);
      found.set(status.name, before === undefined ? own : both(before, own));
    }
  }
  return [...found.values()];
}

/** What waits for one destination in all streams, from the earliest window on; undefined where it has no cursor. */
export function backlogOfAll(found: readonly Backlog[]): Backlog | undefined {
  if (found.length === 0) return undefined;
  const [windowEnd] = found.flatMap((one) => one.windowEnd ?? []).toSorted(compareBytewise);
  const bytes = found.reduce((sum, one) => sum + one.bytes, 0);
  return { bytes, ...omitUndefined({ windowEnd }) };
}

function both(a: DestinationStatusView, b: DestinationStatusView): DestinationStatusView {
  const graver = a.ready ? b : a;
  return {
    ...a,
    ...graver,
    ready: a.ready && b.ready,
    // Some streams may still be sending.
    suspended: a.suspended && b.suspended,
    bootstrapped: a.bootstrapped && b.bootstrapped,
    cursor: a.cursor + b.cursor,
    lagEvents: a.lagEvents + b.lagEvents,
    lagSeconds: Math.max(a.lagSeconds, b.lagSeconds),
    delivered: a.delivered + b.delivered,
    skipped: a.skipped + b.skipped,
    deadLetters: a.deadLetters + b.deadLetters,
    parked: a.parked + b.parked,
    parkedTenants: [...a.parkedTenants, ...b.parkedTenants],
    offboarding: a.offboarding + b.offboarding,
    planChanges: [...a.planChanges, ...b.planChanges].slice(0, 20),
    unpriced: [...a.unpriced, ...b.unpriced].slice(0, 20),
    lateRefusals: [...a.lateRefusals, ...b.lateRefusals].slice(0, 20),
    consecutiveFailures: Math.max(a.consecutiveFailures, b.consecutiveFailures),
  };
}

function readiness(
  streams: HubStreams,
  destinations: Pick<HubDestinations, 'known'>,
  running: () => boolean,
): readonly ReadinessCheck[] {
  const asked = streams.ready();
  const known = destinations.known();
  return [
    { name: 'running', ok: running(), detail: running() ? 'yes' : 'stopping' },
    {
      name: 'streams',
      ok: asked,
      detail: asked ? `${streams.units().length} are read` : 'the databases are being asked',
    },
    {
      name: 'destinations',
      ok: known,
      detail: known ? 'known' : 'the BillingDestinations of the hub’s cluster are not read yet',
    },
  ];
}
