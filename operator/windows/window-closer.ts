import type { Settings } from '../config/settings.ts';
import type { Explanations } from '../explanations/explanations.ts';
import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import type { Credit } from '../metering/credits.ts';
import type { Observation } from '../observation/observation.ts';
import { sampleHoldMs } from '../observation/usage-samples.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Window } from '../model/window.ts';
import type { Appender } from './appender.ts';
import type { CollectorEnd } from './collector.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import type { DueWindow, DueWindows } from './due-windows.ts';
import type { Gaps } from './gaps.ts';
import {
  type CollectorState,
  createJournalWriter,
  encodeState,
  type RestoredJournal,
  STATE_KEY,
} from './journal.ts';
import { type Measured, measureWindow } from './measure-window.ts';
import { meterSettings } from './meter-settings.ts';
import type { Scopes } from './scopes.ts';
import { createTenantJournal, forgetTenantApi } from './tenant-journal.ts';
import type { TenantObjectsEnd } from './tenant-objects.ts';
import type { TenantScope } from './tenant-scopes.ts';
import { unsampledGaps } from './unsampled-gaps.ts';
import type { WindowReports } from './window-report.ts';
import { createWindowReporter } from './window-reporter.ts';

/** Closes windows, each scope's once. */
export interface WindowCloser {
  /** Remembers where the first start of all begins, so that a crash before the first window moves nothing. */
  begin(): Promise<void>;
  /**
   * Puts the pods of the first list into the journal in parts: a hundred thousand of them at once,
   * with the first window, would need as much memory as everything else. No restart reads them until
   * the journal also says where the watch resumes.
   */
  writePods(signal: AbortSignal): Promise<void>;
  /** Closes everything that is due and can be closed, oldest first; the collector's end when it cannot go on. */
  closeDue(signal: AbortSignal): Promise<CollectorEnd | undefined>;
  /**
   * Writes the journal between windows, so that a restart knows of the time since the last one. With
   * `atLeastMs`, only when it was last written that long ago.
   */
  saveJournal(atLeastMs: number): Promise<void>;
  /** Waits until what is written aside of the windows is written. */
  idle(): Promise<void>;
  readonly lastWindow: Window | undefined;
}

export interface WindowCloserOptions {
  readonly observation: Observation;
  readonly restored: RestoredJournal;
  readonly ledger: Pick<Ledger, 'stats' | 'records' | 'writeRecords'>;
  readonly settings: () => Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly scopes: Scopes;
  readonly due: DueWindows;
  readonly gaps: Gaps;
  readonly reports: WindowReports;
  readonly metrics: CollectorMetrics;
  readonly appender: Appender;
  readonly explanations: Pick<Explanations, 'keep'>;
  readonly metricsFailure: () => SamplingFailure | undefined;
  /** Of a tenant cluster's own metrics API. */
  readonly tenantMetricsFailure: (id: string) => SamplingFailure | undefined;
}

interface SamplingFailure {
  readonly reason: string;
  readonly since: number;
}

const PODS_PER_WRITE = 2_000;

export function createWindowCloser(options: WindowCloserOptions): WindowCloser {
  const { observation, clock, logger, scopes, due, gaps, reports, metrics, appender } = options;
  const reporter = createWindowReporter(options);
  const journal = createJournalWriter(observation);
  const tenantJournal = createTenantJournal();
  const startedAt = clock.now();
  let credits: readonly Credit[] = options.restored.state?.credits ?? [];
  let lastWindow = lastWindowOf(options.ledger.stats().lastWindowEnd, scopes.windowMs);
  const metering = () => options.settings().metering;
  /** Drained from the journal, not known to be written. */
  let unwritten: readonly RecordChange[] = [];
  /** False while the journal tells of a window that the ledger may not have. */
  let appended = true;
  let savedAt = clock.monotonic();
  let explaining: Promise<void> = Promise.resolve();
  const podKind = observation.pods.kind;
  /** The journal says where the watch of pods resumes, so its timelines must be of that very moment. */
  let podsResumable = podKind in (options.restored.state?.watches ?? {});

  const measure = (next: DueWindow, recordedAt: string): Measured =>
    measureWindow(next, {
      settings: meterSettings(options.settings(), next.window),
      credits,
      maxBackfillMs: metering().maxBackfillMs,
      recordedAt,
      backfilled: isBackfilled(next.window),
    });

  /** Its end had passed before the start, or it waited until the next one was due as well. */
  const isBackfilled = (window: Window): boolean =>
    window.end <= startedAt ||
    clock.now() - window.end > window.end - window.start + metering().settlingDelayMs;

  /**
   * From here on the window counts as closed in memory, so that what arrives while the ledger is
   * being told is a late fact of it; the ledger is told until it has it.
   */
  const settle = ({ window, members }: DueWindow): void => {
    for (const one of members) {
      const { end, sizeMs } = window;
      one.progress = { ...one.progress, end, sizeMs };
      one.learntUntil = observation.tenantClusters.sequence;
      for (const timelines of one.scope.timelines) timelines.settle(end);
      gaps.filled(one.scope.gapsOf, end);
      if (one.scope.ownNodes === true) {
        one.scope.observation.usage.prune(end, sampleHoldMs(metering().windowMs));
      }
    }
    const ends = scopes.all.map(({ scope, progress }) => [scope.name, progress.end] as const);
    const oldest = Math.min(...ends.map(([, end]) => end));
    const pods = ends.find(([name]) => name === 'pods')?.[1] ?? oldest;
    observation.usage.prune(pods, sampleHoldMs(metering().windowMs));
    observation.tenantClusters.prune(oldest - metering().maxBackfillMs);
  };

  const noteGaps = (
    { window, members }: DueWindow,
    { findings, ownFindings }: Measured,
    now: number,
  ): void => {
    for (const [id, found] of ownFindings) {
      const failure = options.tenantMetricsFailure(id);
      for (const gap of unsampledGaps(window, found, undefined)) {
        const told = failure === undefined ? gap : { ...gap, reason: failure.reason };
        metrics.gapSeconds.inc({ source: gap.source }, gaps.note(told) / 1000);
      }
    }
    if (members.some(({ scope }) => scope.name === 'pods')) {
      for (const gap of unsampledGaps(window, findings, options.metricsFailure())) {
        metrics.gapSeconds.inc({ source: gap.source }, gaps.note(gap) / 1000);
      }
    }
    gaps.prune(now - options.settings().ledger.retentionMs);
  };

  const stateOf = (): CollectorState => ({
    scopes: Object.fromEntries(scopes.host.map(({ scope, progress }) => [scope.name, progress])),
    credits,
    watches: scopes.watchPoints(clock.now()),
    tenantClustersObservedAt: observation.tenantClusters.observedAt,
  });

  const drainRecords = (): readonly RecordChange[] => {
    const state = stateOf();
    podsResumable ||= podKind in state.watches;
    const ofTenants = tenantJournal.drain(scopes.tenants.all, clock.now());
    unwritten = [...unwritten, ...journal.drain(state), ...ofTenants, ...gaps.drain()];
    return unwritten;
  };

  /** From measuring up to the append nothing here waits, so that events and journal tell of one moment. */
  const close = async (next: DueWindow, signal: AbortSignal): Promise<CollectorEnd | undefined> => {
    const { window } = next;
    // One window's explanations at a time: each needs memory until it is written.
    await explaining;
    const begun = clock.monotonic();
    const now = clock.now();
    const closedAt = new Date(now).toISOString();
    const measured = measure(next, closedAt);
    ({ credits } = measured.settlement);
    settle(next);
    noteGaps(next, measured, now);
    const records = drainRecords();
    const { lastWindowEnd = -Infinity } = options.ledger.stats();
    const advance = window.end > lastWindowEnd ? { windowEnd: window.end } : {};
    appended = false;
    const outcome = await appender.append({ events: measured.events, records, ...advance }, signal);
    if (outcome.kind !== 'appended') return outcome;
    appended = true;
    unwritten = [];
    savedAt = clock.monotonic();
    if (lastWindow === undefined || window.end > lastWindow.end) {
      lastWindow = { start: window.start, end: window.end };
    }
    const durationMs = Math.round(clock.monotonic() - begun);
    const report = reporter.report(next, measured, outcome.outcomes, { closedAt, durationMs });
    await forgetEnded();
    // Only a report: the window itself is safe, and the report stays in memory if this fails.
    await options.ledger.writeRecords(reports.add(report));
    explaining = options.explanations.keep({ ...measured, window, closedAt: now });
    return undefined;
  };

  /** A tenant cluster that is gone is forgotten with its last window. */
  const forgetEnded = async (): Promise<void> => {
    for (const scope of scopes.tenants.all) {
      const { tenant, progress } = scope;
      if (tenant.ended === undefined || progress.end < tenant.ended.at) continue;
      noteLost(scope, tenant.ended);
      const outcome = await options.ledger.writeRecords([
        ...(await forgetTenantApi(options.ledger, tenant.id)),
        ...gaps.drain(),
      ]);
      if (outcome.kind === 'written') scopes.tenants.drop(tenant.id);
    }
  };

  /** What it used after its API was last read will never be known. */
  const noteLost = (
    { tenant, scope, progress }: TenantScope,
    { at, knownUntil }: TenantObjectsEnd,
  ): void => {
    const from = Math.max(knownUntil, progress.meteredFrom);
    if (!scope.expected || at - from < metering().windowMs) return;
    const reason = 'the tenant cluster is gone, and its API had failed before';
    const gap = { source: 'collector', scope: tenant.id, from, to: at, reason };
    metrics.gapSeconds.inc({ source: gap.source }, gaps.note(gap) / 1000);
  };

  return {
    get lastWindow() {
      return lastWindow;
    },
    idle: () => explaining,
    begin: async () => {
      if (options.restored.state !== undefined) return;
      // No timeline is in the journal yet, so no watch may claim to have known what there was.
      const state = { ...stateOf(), watches: {} };
      await options.ledger.writeRecords([{ key: STATE_KEY, value: encodeState(state) }]);
    },
    writePods: async (signal) => {
      if (podsResumable) return;
      while (!signal.aborted) {
        const part = journal.drainPods(PODS_PER_WRITE);
        if (part.length === 0) return;
        const outcome = await options.ledger.writeRecords(part);
        if (outcome.kind === 'written') continue;
        unwritten = [...unwritten, ...part];
        return;
      }
    },
    saveJournal: async (atLeastMs) => {
      if (!appended || clock.monotonic() - savedAt < atLeastMs) return;
      savedAt = clock.monotonic();
      const outcome = await options.ledger.writeRecords(drainRecords());
      if (outcome.kind === 'written') unwritten = [];
      else logger.warn(`[controller] cannot save the journal: ${outcome.message}`);
    },
    closeDue: async (signal) => {
      while (!signal.aborted) {
        metrics.lagSeconds.set(due.lagMs() / 1000);
        if (!appender.mayAppend()) return undefined;
        const next = due.next();
        if (next === undefined) return undefined;
        const end = await close(next, signal);
        if (end !== undefined) return end;
      }
      return undefined;
    },
  };
}

function lastWindowOf(end: number | undefined, sizeMs: number): Window | undefined {
  return end === undefined ? undefined : { start: end - sizeMs, end };
}
