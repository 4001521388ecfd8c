import type { Settings } from '../config/settings.ts';
import type { Explanations } from '../explanations/explanations.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LoadBalancerView } from '../observation/load-balancer.ts';
import type { NodeView } from '../observation/node.ts';
import { type NodeSettings, sameNodeSettings } from '../observation/node-state.ts';
import type { Observation } from '../observation/observation.ts';
import type { PodView } from '../observation/pod.ts';
import { sampleIntervalMs } from '../observation/usage-samples.ts';
import type { VolumeClaimView } from '../observation/volume-claim.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createAppender } from './appender.ts';
import { createClockWatch } from './clock-watch.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import { createDueWindows } from './due-windows.ts';
import { createGaps, type Gap, GAP_PREFIX } from './gaps.ts';
import type { RestoredJournal } from './journal.ts';
import type { PodMetricsReader } from './pod-metrics.ts';
import { createSampler, type Wanted } from './sampler.ts';
import { createScopes } from './scopes.ts';
import type { WatchedSource } from './scope.ts';
import { NO_TENANT_OBJECTS, type TenantObjectsList } from './tenant-objects.ts';
import type { RestoredTenantApi } from './tenant-journal.ts';
import { createTenantSampler } from './tenant-sampler.ts';
import { createWindowCloser } from './window-closer.ts';
import { createWindowReports, REPORT_PREFIX, type WindowReport } from './window-report.ts';

/** The watches, one for each kind; workloads have two. */
export interface CollectorSources {
  readonly pods: WatchedSource<PodView>;
  readonly nodes: WatchedSource<NodeView>;
  readonly resourceClaims: WatchedSource;
  readonly resourceSlices: WatchedSource;
  readonly volumes: WatchedSource<VolumeClaimView>;
  readonly loadBalancers: WatchedSource<LoadBalancerView>;
  readonly workloads: readonly WatchedSource[];
}

export interface CollectorOptions {
  readonly observation: Observation;
  /** As {@link restoreJournal} gave it. */
  readonly restored: RestoredJournal;
  readonly sources: CollectorSources;
  /** Tenant clusters with nodes of their own; none without. */
  readonly tenants?: TenantObjectsList;
  /** As {@link restoreTenantApis} gave them. */
  readonly restoredTenants?: readonly RestoredTenantApi[];
  readonly ledger: Pick<Ledger, 'append' | 'stats' | 'records' | 'writeRecords'>;
  /** The settings in force; asked again for every window. */
  readonly settings: () => Settings;
  readonly podMetrics: PodMetricsReader;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: CollectorMetrics;
  readonly explanations: Pick<Explanations, 'keep'>;
}

/** Why a collector has ended. */
export type CollectorEnd =
  | { readonly kind: 'aborted' }
  /** The ledger is fenced or damaged: the process has to stop. */
  | { readonly kind: 'ledger'; readonly reason: string };

/** What others may see of the windows. */
export interface WindowsView {
  /** The newest closed window, milliseconds since the epoch; undefined before the first. */
  readonly lastWindow: { readonly start: number; readonly end: number } | undefined;
  /** The window size in force. */
  readonly windowMs: number;
  /** Newest first. */
  gaps(): readonly Gap[];
  /** Oldest first, of the last day or so. */
  reports(): readonly WindowReport[];
  /** The metrics API cannot be read. */
  readonly metricsFailure: { readonly reason: string; readonly since: number } | undefined;
}

/** Samples, closes windows and appends them, until it is told to stop. */
export interface Collector extends WindowsView {
  run(signal: AbortSignal): Promise<CollectorEnd>;
}

/** The loop looks at the clock at least this often, so that a step of it is noticed. */
const MAX_SLEEP_MS = 1000;

/** The journal is never much older than this, however long windows are. */
const JOURNAL_MS = 30_000;

/**
 * After a step of the clock windows wait this long: a clock that is put right again at once must
 * not have closed windows that lie in the future.
 */
const STEP_HOLD_MS = 10_000;

export function createCollector(options: CollectorOptions): Collector {
  const { observation, sources, clock, logger, settings, ledger, metrics } = options;
  const gaps = createGaps();
  const reports = createWindowReports();
  const { tenants = NO_TENANT_OBJECTS, restoredTenants = [] } = options;
  const scopes = createScopes({
    observation,
    tenants,
    restoredTenants: new Map(restoredTenants.map(({ id, progress }) => [id, progress])),
    wantedMs: () => settings().metering.windowMs,
    sources,
    restored: options.restored.state,
    lastWindowEnd: ledger.stats().lastWindowEnd,
    startedAt: clock.now(),
    windowMs: settings().metering.windowMs,
  });
  const sampler = createSampler({
    reader: options.podMetrics,
    findPod: (namespace, name) => sources.pods.find(namespace, name),
    usage: observation.usage,
    wanted: () => wantedOnHost(observation),
    logger,
  });
  const tenantSampler = createTenantSampler(tenants, logger);
  const appender = createAppender({ ledger, clock, random: options.random, logger });
  const due = createDueWindows({ ...options, scopes, gaps });
  const closer = createWindowCloser({
    ...options,
    scopes,
    due,
    gaps,
    reports,
    appender,
    metricsFailure: () => sampler.failure,
    tenantMetricsFailure: (id) => tenantSampler.failure(id),
  });

  const sampling = async (
    { sample }: { readonly sample: (at: number, signal: AbortSignal) => Promise<void> },
    signal: AbortSignal,
  ): Promise<void> => {
    // Only an abort ends the wait without a list.
    await sources.pods.ready(signal).catch(() => undefined);
    if (!signal.aborted) await sample(clock.now(), signal);
    while (!signal.aborted) {
      const interval = sampleIntervalMs(settings().metering.windowMs);
      const next = (Math.floor(clock.now() / interval) + 1) * interval;
      await sleepUntil(clock, next, signal);
      if (!signal.aborted) await sample(clock.now(), signal);
    }
  };

  const closing = async (signal: AbortSignal): Promise<CollectorEnd> => {
    const watch = createClockWatch(clock);
    let heldUntil = -Infinity;
    let refreshedFor: NodeSettings | undefined;
    while (!signal.aborted) {
      const step = watch.look();
      if (step !== 0) {
        logger.warn('[controller] the clock was set: windows are closed once each all the same', {
          stepMs: step,
        });
        metrics.clockSteps.inc();
        heldUntil = clock.monotonic() + STEP_HOLD_MS;
      }
      const { metering } = settings();
      // What came out of the journal may have been read under other settings; it is known to be there once listed.
      if (scopes.all.some(({ scope, listed }) => listed && scope.name === 'pods')) {
        const same = refreshedFor !== undefined && sameNodeSettings(refreshedFor, metering);
        if (!same) {
          observation.nodes.refresh(clock.now());
          observation.gpuNodes.refresh(clock.now());
          for (const tenant of tenants.list()) tenant.observation.nodes.refresh(clock.now());
        }
        refreshedFor = metering;
      }
      if (clock.monotonic() >= heldUntil) {
        scopes.tenants.refresh(clock.now());
        await closer.writePods(signal);
        const end = await closer.closeDue(signal);
        if (end !== undefined) return end;
        await closer.saveJournal(JOURNAL_MS);
      }
      const wait = Math.min(Math.max(due.nextDue() - clock.now(), 100), MAX_SLEEP_MS);
      await clock.sleep(wait, signal).catch(() => undefined);
    }
    await closer.saveJournal(0);
    return { kind: 'aborted' };
  };

  return {
    get lastWindow() {
      return closer.lastWindow;
    },
    get windowMs() {
      return scopes.windowMs;
    },
    gaps: () => gaps.list(),
    reports: () => reports.list(),
    get metricsFailure() {
      return sampler.failure;
    },
    run: async (signal) => {
      gaps.restore(await collect(ledger.records(GAP_PREFIX)));
      reports.restore(await collect(ledger.records(REPORT_PREFIX)));
      const stop = new AbortController();
      const either = AbortSignal.any([signal, stop.signal]);
      await closer.begin();
      const listed = scopes.awaitLists(either);
      const sampled = Promise.all([sampling(sampler, either), sampling(tenantSampler, either)]);
      try {
        return await closing(either);
      } finally {
        stop.abort();
        await Promise.all([listed, sampled, closer.idle()]);
      }
    },
  };
}

/** Namespaces whose tenant clusters are billed by what their pods use. */
function wantedOnHost({ tenantClusters }: Observation): Wanted {
  const clusters = tenantClusters.current.filter(
    ({ excluded, source, metering }) =>
      !excluded && source === 'workload' && metering.cpuMemoryBasis !== 'requests',
  );
  const namespaces = new Set(clusters.map(({ namespace }) => namespace));
  return { names: [...namespaces], has: (namespace) => namespaces.has(namespace) };
}

/** Sleeps in short stretches: the wall clock may be set meanwhile. */
async function sleepUntil(clock: Clock, due: number, signal: AbortSignal): Promise<void> {
  const begun = clock.now();
  while (!signal.aborted && clock.now() < due && clock.now() >= begun - MAX_SLEEP_MS) {
    const wait = Math.min(due - clock.now(), MAX_SLEEP_MS);
    await clock.sleep(wait, signal).catch(() => undefined);
  }
}

async function collect<T>(values: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const value of values) list.push(value);
  return list;
}
