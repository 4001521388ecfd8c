import { destinationSummary } from '../../controllers/destination-status.ts';
import type { Backlog } from '../../delivery/destination-status.ts';
import type {
  DestinationStatusView,
  DestinationsView,
  DiscoveryView,
  Gap,
  MeteringView,
} from '../../http/views.ts';
import { compareBytewise } from '../../model/bytewise.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { ShownStream } from '../views.ts';

type Streams = () => readonly Pick<ShownStream, 'name' | 'meter' | 'destinations'>[];

/** The meters of all streams as one. Texts about one stream begin with its name. */
export function metersOfAll(
  streams: Streams,
  tenants: () => readonly Tenant[],
  problems: () => readonly string[],
): DiscoveryView & MeteringView {
  const meters = () => streams().map(({ name, meter }) => ({ source: name.source, meter }));
  return {
    known: () => meters().every(({ meter }) => meter.known()),
    lookedAt: () => undefined,
    tenants,
    clusters: () => meters().flatMap(({ meter }) => meter.clusters()),
    problems: () => [
      ...problems(),
      ...meters().flatMap(({ source, meter }) =>
        meter.problems().map((text) => `${source}: ${text}`),
      ),
    ],
    failedTenantApis: () =>
      meters().flatMap(({ source, meter }) =>
        meter.failedTenantApis().map(({ reason, ...failed }) => {
          return { ...failed, reason: `${source}: ${reason}` };
        }),
      ),
    withoutKubeconfig: () => meters().flatMap(({ meter }) => meter.withoutKubeconfig()),
    metricsFailure: () => {
      const [first] = meters().flatMap(({ source, meter }) => {
        const failure = meter.metricsFailure();
        return failure === undefined
          ? []
          : [{ ...failure, reason: `${source}: ${failure.reason}` }];
      });
      return first;
    },
    unattributed: () => {
      const found = meters().map(({ meter }) => meter.unattributed());
      return {
        total: found.reduce((sum, { total }) => sum + total, 0),
        items: found.flatMap(({ items }) => items).slice(0, 10),
        gpuSeconds: found.reduce((sum, { gpuSeconds }) => sum + gpuSeconds, 0),
        gpuObjects: found.reduce((sum, { gpuObjects }) => sum + gpuObjects, 0),
      };
    },
    gaps: () => meters().flatMap(({ source, meter }) => named(source, meter, meter.gaps())),
    pastGaps: () => meters().flatMap(({ source, meter }) => named(source, meter, meter.pastGaps())),
    windows: () =>
      newestFirst(
        meters().map(({ source, meter }) =>
          meter.windows().map((window) => {
            return { ...window, details: { ...window.details, cluster: source } };
          }),
        ),
      ),
  };
}

/** A gap with the name of its stream before its scope, unless the scope is a tenant cluster. */
function named(
  source: string,
  meter: Pick<DiscoveryView, 'clusters'>,
  gaps: readonly Gap[],
): readonly Gap[] {
  const clusters = new Set(meter.clusters().map(({ id }) => id));
  return gaps.map((gap) =>
    clusters.has(gap.scope) ? gap : { ...gap, scope: `${source}: ${gap.scope}` },
  );
}

/**
 * Merges the windows of all streams, newest first; each stream has its newest first. Reads each on
 * demand.
 */
export function* newestFirst<W extends { readonly end: number }>(
  streams: readonly IteratorObject<W>[],
): Generator<W, undefined> {
  const heads = new Map<IteratorObject<W>, W>();
  const advance = (stream: IteratorObject<W>): void => {
    const next = stream.next();
    if (next.done === true) heads.delete(stream);
    else heads.set(stream, next.value);
  };
  for (const stream of streams) advance(stream);
  while (heads.size > 0) {
    const [first, window] = [...heads].reduce((a, b) => (b[1].end > a[1].end ? b : a));
    yield window;
    advance(first);
  }
}

/** Destinations over all streams. */
export function allDestinationsView(streams: Streams): DestinationsView {
  return {
    list: () => destinationsOfAll(streams()),
    summaryOf: destinationSummary,
  };
}

/**
 * Merges each destination over all streams: numbers are sums, and a problem in one stream is a
 * problem of the destination.
 */
export function destinationsOfAll(
  streams: readonly {
    readonly name: Pick<ShownStream['name'], 'source'>;
    readonly destinations: Pick<DestinationsView, 'list'>;
  }[],
): readonly DestinationStatusView[] {
  const found = new Map<string, DestinationStatusView>();
  for (const { name, destinations } of streams) {
    for (const status of destinations.list()) {
      const own = {
        ...status,
        ...(status.blocked !== undefined && { blocked: `${name.source}: ${status.blocked}` }),
        ...(status.lastError !== undefined && { lastError: `${name.source}: ${status.lastError}` }),
      };
      const before = found.get(status.name);
      found.set(status.name, before === undefined ? own : both(before, own));
    }
  }
  return [...found.values()];
}

function both(a: DestinationStatusView, b: DestinationStatusView): DestinationStatusView {
  const graver = a.ready ? b : a;
  return {
    ...a,
    ...knownOf(graver),
    ready: a.ready && b.ready,
    // Some streams may still send.
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
    backlog: backlogOfBoth(a.backlog, b.backlog),
  };
}

/** The fields with a value, so that a stream's unknown field does not overwrite the other's. */
function knownOf(status: DestinationStatusView): Partial<DestinationStatusView> {
  return Object.fromEntries(Object.entries(status).filter(([, value]) => value !== undefined));
}

/** Backlog of both, from the earlier window on. */
function backlogOfBoth(a: Backlog | undefined, b: Backlog | undefined): Backlog | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const [windowEnd] = [a, b].flatMap((one) => one.windowEnd ?? []).toSorted(compareBytewise);
  return { bytes: a.bytes + b.bytes, windowEnd };
}
