import type { Settings } from '../../settings/settings.ts';
import type { Explanations } from '../explanations/explanations.ts';
import type { QueuedArrivals } from '../../kubernetes/live-view.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Window } from '../../model/window.ts';
import { type NodeSettings, sameNodeSettings } from '../timelines/node-state.ts';
import type { Observation } from '../timelines/observation.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { Tracer } from '../../telemetry/tracer.ts';
import { type AppendEnd, Appender } from './appender.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import { DueWindows } from './due-windows.ts';
import { type Gap, GAP_PREFIX, Gaps, type UsageFailure } from './gaps.ts';
import type { RestoredJournal } from './journal.ts';
import { PrivateNodeNotices, type TenantNotice } from './private-node-limit.ts';
import type { PodMetricsReader } from './pod-metrics.ts';
import { Quarantine } from './quarantine.ts';
import { REPORT_PREFIX, WindowReports } from './report-store.ts';
import { sampleRegularly } from './sampling.ts';
import type { CollectorSources } from './scope.ts';
import { Scopes, tenantClustersOf } from './scopes.ts';
import type { RestoredTenantApi } from './tenant-journal.ts';
import type { TenantObjectsList } from './tenant-scopes.ts';
import {
  createHostUsage,
  createTenantUsage,
  type HostUsage,
  type UsageSampler,
} from './usage-sampler.ts';
import { WindowCloser } from './window-closer.ts';
import type { WindowReport } from './window-report.ts';

export interface CollectorOptions {
  readonly observation: Observation;
  /** From {@link restoreJournal}. The resume points of the watches are not needed here. */
  readonly restored: Pick<RestoredJournal, 'state'>;
  readonly sources: CollectorSources;
  /** Queue of what watches and discovery deliver. It waits while a window is measured. */
  readonly arrivals: QueuedArrivals;
  /** Tenant clusters with private nodes. */
  readonly tenants: TenantObjectsList;
  /** From {@link restoreTenantApis}. */
  readonly restoredTenants?: readonly Pick<RestoredTenantApi, 'id' | 'progress'>[];
  readonly ledger: Pick<Ledger, 'append' | 'stats' | 'record' | 'records' | 'writeRecords'>;
  /** The settings in force. The collector reads them again for every window. */
  readonly settings: () => Settings;
  readonly podMetrics: PodMetricsReader;
  /** Gets a span for each window that is closed. */
  readonly tracer?: Tracer;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: CollectorMetrics;
  readonly explanations: Pick<Explanations, 'recordsFor'>;
}

/** Longest sleep of the loop, so that it notices a step of the wall clock. */
const MAX_SLEEP_MS = 1000;

/** Longest age of the journal, however long windows are. */
const JOURNAL_MS = 30_000;

/**
 * Windows wait this long after a step of the clock. If someone corrects the clock at once, no
 * window that lies in the future has been closed.
 */
const STEP_WAIT_MS = 10_000;

/** Samples usage, closes windows and appends them until it is aborted. */
export class Collector {
  readonly #options: CollectorOptions;
  readonly #tenants: TenantObjectsList;
  readonly #gaps = new Gaps();
  readonly #reports = new WindowReports();
  readonly #scopes: Scopes;
  readonly #usage: HostUsage;
  readonly #tenantUsage: UsageSampler;
  readonly #quarantine: Quarantine;
  readonly #privateNodes: PrivateNodeNotices;
  readonly #due: DueWindows;
  readonly #closer: WindowCloser;
  readonly #closedListeners = new Set<() => void>();
  /** The settings by which nodes were last read. */
  #nodesReadBy: NodeSettings | undefined;

  constructor(options: CollectorOptions) {
    const { settings, ledger, clock, logger, tenants } = options;
    this.#options = options;
    this.#tenants = tenants;
    this.#scopes = new Scopes({
      ...options,
      tenants,
      restored: options.restored.state,
      restoredTenants: new Map(
        (options.restoredTenants ?? []).map(({ id, progress }) => [id, progress]),
      ),
      wantedMs: () => settings().metering.windowMs,
      lastWindowEnd: ledger.stats().lastWindowEnd,
      startedAt: clock.now(),
    });
    this.#usage = createHostUsage(options);
    this.#tenantUsage = createTenantUsage(tenants, logger);
    this.#quarantine = new Quarantine(options);
    this.#privateNodes = new PrivateNodeNotices(logger);
    const quarantine = this.#quarantine;
    const shared = { ...options, scopes: this.#scopes, gaps: this.#gaps, quarantine };
    this.#due = new DueWindows(shared);
    this.#closer = new WindowCloser({
      ...shared,
      privateNodes: this.#privateNodes,
      due: this.#due,
      reports: this.#reports,
      appender: new Appender(options),
      usageFailures: this.#usage.failures,
      tenantUsageFailure: (id) => this.#tenantUsage.failure(id),
      onClosed: () => {
        for (const listener of this.#closedListeners) listener();
      },
    });
  }

  /** The newest closed window; undefined before the first. */
  get lastWindow(): Window | undefined {
    return this.#closer.lastWindow;
  }

  /** Gaps within RETENTION, newest first. */
  gaps(): readonly Gap[] {
    return this.#gaps.list();
  }

  /** Gaps that ended before RETENTION, newest first. Past months need them. */
  pastGaps(): readonly Gap[] {
    return this.#gaps.past();
  }

  /** Reports of about the last day, newest first. The iterator decodes each when it reaches it. */
  reports(): IteratorObject<WindowReport, undefined> {
    return this.#reports.list();
  }

  /** The newest report of a window in which this scope was closed. */
  lastReport(scope: string): WindowReport | undefined {
    return this.#reports.last(scope);
  }

  /**
   * Tenant clusters that are missing from windows, completely or with some nodes. Something of
   * theirs threw an error or exceeded a limit.
   */
  quarantinedTenants(): readonly TenantNotice[] {
    const { current } = this.#options.observation.tenantClusters;
    const quarantined = this.#quarantine.list().flatMap(({ name, reason, since }) => {
      return tenantClustersOf(name, current).map((tenantCluster) => ({
        tenantCluster,
        reason,
        since,
      }));
    });
    return [...quarantined, ...this.#privateNodes.list()];
  }

  /** Why the metrics API cannot be read, for all namespaces or for those that the reason names. */
  get metricsFailure(): UsageFailure | undefined {
    return this.#usage.failure;
  }

  /** Calls `listener` after each window whose events are in the ledger; returns the unsubscribe. */
  onClosed(listener: () => void): () => void {
    this.#closedListeners.add(listener);
    return () => void this.#closedListeners.delete(listener);
  }

  /**
   * End of the last window that the ledger has of this cluster, milliseconds since the epoch;
   * `-Infinity` before the first. Quarantined namespaces may be behind.
   */
  closedUntil(): number {
    return this.#closer.closedUntil;
  }

  /**
   * End of the oldest window of this cluster that is not closed, milliseconds since the epoch.
   * Windows of separate namespaces do not count.
   */
  unclosedEnd(): number {
    return this.#due.unclosedEnd();
  }

  /**
   * Sequence number of the ledger after the newest closed window. Undefined while a closed window
   * is not in the ledger yet, and while other windows of the same time are due.
   */
  closedHead(): number | undefined {
    return this.#closer.closedHead;
  }

  async run(signal: AbortSignal): Promise<AppendEnd> {
    const { ledger } = this.#options;
    this.#gaps.restore(await Array.fromAsync(ledger.records(GAP_PREFIX)));
    this.#reports.restore(await Array.fromAsync(ledger.records(REPORT_PREFIX)));
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    await this.#closer.journal.begin();
    const listed = this.#scopes.awaitLists(either);
    const sampled = Promise.all([
      sampleRegularly(this.#usage.sampler, this.#options, either),
      sampleRegularly(this.#tenantUsage, this.#options, either),
    ]);
    try {
      return await this.#closeWindows(either);
    } finally {
      stop.abort();
      await Promise.all([listed, sampled]);
    }
  }

  async #closeWindows(signal: AbortSignal): Promise<AppendEnd> {
    const { clock, logger, metrics } = this.#options;
    const { journal } = this.#closer;
    const steps = new ClockSteps(clock);
    let waitUntil = -Infinity;
    while (!signal.aborted) {
      const step = steps.sinceLast();
      if (step !== 0) {
        logger.warn('[controller] the clock was set; each window is still closed only once', {
          stepMs: step,
        });
        metrics.clockSteps.inc();
        waitUntil = clock.monotonic() + STEP_WAIT_MS;
      }
      await this.#refreshNodes();
      if (clock.monotonic() >= waitUntil) {
        this.#scopes.tenants.refresh(clock.now());
        await journal.writePods(signal);
        const end = await this.#closer.closeDue(signal);
        if (end !== undefined) return end;
        await journal.save(JOURNAL_MS);
      }
      const wait = Math.min(Math.max(this.#due.nextDue() - clock.now(), 100), MAX_SLEEP_MS);
      await clock.sleep(wait, signal).catch(() => undefined);
    }
    await journal.save(0);
    return { kind: 'aborted' };
  }

  /**
   * Reads the timelines of all nodes again when the settings in force have changed. The first time
   * is when nodes are listed, because the journal's timelines may come from other settings.
   */
  async #refreshNodes(): Promise<void> {
    if (!this.#scopes.host.some(({ scope, listed }) => listed && scope.name === 'pods')) return;
    const { observation, clock, settings } = this.#options;
    const { metering } = settings();
    const before = this.#nodesReadBy;
    this.#nodesReadBy = metering;
    if (before !== undefined && sameNodeSettings(before, metering)) return;
    const slice = new TimeSlice(clock);
    const now = (): number => clock.now();
    await slice.take(observation.nodes.refreshing(now));
    await slice.take(observation.gpuNodes.refreshing(now));
    for (const tenant of this.#tenants.list()) tenant.refresh('nodes');
  }
}

/** Detects that the wall clock was set, by comparing it with the monotonic clock. */
class ClockSteps {
  readonly #clock: Clock;
  #wall: number;
  #monotonic: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#wall = clock.now();
    this.#monotonic = clock.monotonic();
  }

  /** Returns the step since the last call, signed milliseconds; 0 for one below {@link STEP_MS}. */
  sinceLast(): number {
    const now = this.#clock.now();
    const elapsed = this.#clock.monotonic() - this.#monotonic;
    const step = now - this.#wall - elapsed;
    this.#wall = now;
    this.#monotonic += elapsed;
    return Math.abs(step) > STEP_MS ? Math.round(step) : 0;
  }
}

/** Slewing and scheduling delays stay far below this. */
const STEP_MS = 30_000;
