import { least } from '../../model/extremes.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Explanations } from '../explanations/explanations.ts';
import type { QueuedArrivals } from '../../kubernetes/live-view.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { assembleEvents } from '../meters/assemble.ts';
import type { Reversal } from '../meters/reversals.ts';
import type { Window } from '../../model/window.ts';
import type { Observation } from '../timelines/observation.ts';
import { sampleValidMs } from '../timelines/usage-samples.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { TraceSpan, Tracer } from '../../telemetry/tracer.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { AppendEnd, Appender } from './appender.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import type { DueWindow, DueWindows } from './due-windows.ts';
import { forgetEndedTenants, releaseLeft } from './ended-tenants.ts';
import { type Gaps, type UsageFailure, type UsageFailures, PAST_GAPS_MS } from './gaps.ts';
import type { RestoredJournal } from './journal.ts';
import { GpuHistory } from './gpu-history/gpu-history.ts';
import { GPU_SHARES } from './gpu-history/gpu-series.ts';
import { shareRows } from './gpu-history/share-rows.ts';
import { JournalWriter } from './journal-writer.ts';
import { type FailedScope, type Measured, measureWindow } from './measure-window.ts';
import { forOneSlice } from './one-slice.ts';
import type { PrivateNodeNotices } from './private-node-limit.ts';
import type { Quarantine } from './quarantine.ts';
import type { WindowReports } from './report-store.ts';
import type { Scopes } from './scopes.ts';
import { Standstill } from './standstill.ts';
import type { RestoredTenantApi } from './tenant-journal.ts';
import { UnseenStretches } from './unseen-stretches.ts';
import { windowGaps } from './window-gaps.ts';
import { WindowReporter } from './window-report.ts';

interface ClosingWindow {
  /** When measuring began, monotonic. */
  readonly begun: number;
  readonly slice: TimeSlice;
  readonly span: TraceSpan | undefined;
}

/** Closes each window of each scope once. */
export class WindowCloser {
  readonly journal: JournalWriter;
  readonly #options;
  readonly #reporter: WindowReporter;
  readonly #gpus: GpuHistory;
  readonly #startedAt: number;
  #reversals: readonly Reversal[];
  #lastWindow: Window | undefined;
  #closedHead = 0;
  #closedUntil = -Infinity;
  /** Some due scopes are closed and others are not yet. */
  #isClosing = false;

  constructor(options: {
    readonly observation: Observation;
    readonly restored: Pick<RestoredJournal, 'state'>;
    readonly restoredTenants?: readonly Pick<RestoredTenantApi, 'id'>[];
    readonly ledger: Pick<Ledger, 'stats' | 'record' | 'records' | 'writeRecords'>;
    readonly settings: () => Settings;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly scopes: Scopes;
    /** Queue of what the watches of this cluster deliver. */
    readonly arrivals: QueuedArrivals;
    readonly due: DueWindows;
    readonly gaps: Gaps;
    readonly quarantine: Quarantine;
    readonly privateNodes: PrivateNodeNotices;
    readonly reports: WindowReports;
    readonly metrics: CollectorMetrics;
    readonly appender: Appender;
    readonly explanations: Pick<Explanations, 'recordsFor'>;
    /** Failures of this cluster's metrics API. */
    readonly usageFailures: UsageFailures;
    /** Failure of a tenant cluster's own metrics API. */
    readonly tenantUsageFailure: (id: string) => UsageFailure | undefined;
    /** Called after each window whose events are in the ledger. */
    readonly onClosed: () => void;
    readonly tracer?: Tracer;
  }) {
    this.#options = options;
    this.#reversals = options.restored.state?.reversals ?? [];
    const unseen = new UnseenStretches(options);
    this.journal = new JournalWriter({ ...options, unseen, reversals: () => this.#reversals });
    this.#reporter = new WindowReporter(options);
    this.#gpus = new GpuHistory({ ...options, series: GPU_SHARES });
    this.#startedAt = options.clock.now();
    const { lastWindowEnd: end } = options.ledger.stats();
    if (end !== undefined) this.#lastWindow = { start: end - options.scopes.windowMs, end };
  }

  get lastWindow(): Window | undefined {
    return this.#lastWindow;
  }

  /**
   * The ledger's head after the last window. Undefined while a closed window is not in the ledger
   * yet, and while other windows of the same time are due.
   */
  get closedHead(): number | undefined {
    return this.#isClosing ? undefined : this.#closedHead;
  }

  /** As `Collector.closedUntil`. */
  get closedUntil(): number {
    return this.#closedUntil;
  }

  /** Closes all due windows that can be, oldest first. Returns why it cannot continue, if so. */
  async closeDue(signal: AbortSignal): Promise<AppendEnd | undefined> {
    const end = await this.#closeAllDue(signal);
    if (end === undefined) this.#isClosing = false;
    return end;
  }

  async #closeAllDue(signal: AbortSignal): Promise<AppendEnd | undefined> {
    const { due, metrics, appender, clock, tracer } = this.#options;
    const slice = new TimeSlice(clock);
    while (!signal.aborted) {
      metrics.lagSeconds.set(due.lagMs() / 1000);
      if (!appender.mayAppend()) return undefined;
      const next = due.next();
      if (next === undefined) return undefined;
      const begun = clock.monotonic();
      const span = tracer?.begin('window', { end: new Date(next.window.end).toISOString() });
      const end = await this.#closeNext(next, { begun, slice, span }, signal);
      span?.end();
      if (end !== undefined) return end;
      if (slice.isOver) await slice.next();
    }
    return undefined;
  }

  async #closeNext(
    due: DueWindow,
    closing: ClosingWindow,
    signal: AbortSignal,
  ): Promise<AppendEnd | undefined> {
    const end = await this.#gpus.load(due.window.start, signal);
    if (end !== undefined) return end;
    const next = this.#options.due.still(this.#forOneSlice(due));
    return next && (await this.#close(this.#writable(next), closing, signal));
  }

  /**
   * Measures a window, settles it and drains the journal. The known state of objects does not
   * change meanwhile, so events and journal are of the same moment. What watches deliver meanwhile
   * is late for this window.
   */
  async #measureAndSettle(
    next: DueWindow,
    { slice }: ClosingWindow,
    now: number,
  ): Promise<{
    readonly closed: DueWindow;
    readonly measured: Measured;
    /** The records that go with its events. */
    readonly journal: readonly RecordChange[];
  }> {
    const still = new Standstill(next.members, this.#options);
    try {
      const measured = await slice.take(this.#measure(next, still, slice));
      for (const failed of measured.failed) this.#quarantineFailed(failed);
      const closed = { window: next.window, members: measured.members };
      // Failed scopes are not billed. They are quarantined, so this does not repeat forever.
      if (closed.members.length === 0) return { closed, measured, journal: [] };
      this.#reversals = measured.settlement.reversals;
      this.#isClosing = true;
      this.#settle(closed);
      this.#noteGaps(closed, measured, now);
      const journal = await slice.take(this.journal.drainForAppend(closed.members, still.points));
      return { closed, measured, journal };
    } finally {
      await still.release(slice);
    }
  }

  async #close(
    next: DueWindow,
    closing: ClosingWindow,
    signal: AbortSignal,
  ): Promise<AppendEnd | undefined> {
    const { begun, slice, span } = closing;
    const { clock, ledger, appender, reports, explanations, scopes, settings } = this.#options;
    const { window } = next;
    const now = clock.now();
    const closedAt = new Date(now).toISOString();
    const backfilled = this.#isBackfilled(window);
    const { closed, measured, journal } = await this.#measureAndSettle(next, closing, now);
    if (closed.members.length === 0) return undefined;
    const made = { window, recordedAt: closedAt, backfilled };
    const assembled = await slice.take(assembleEvents(measured.settlement.settled, made));
    const shares = shareRows([measured.diagnostics, ...measured.privateNodeDiagnostics.values()]);
    const gpus = await this.#gpus.add(window.start, shares, slice);
    const evidence = await explanations.recordsFor({ ...assembled, window, closedAt: now });
    const { lastWindowEnd = -Infinity } = ledger.stats();
    const advance = window.end > lastWindowEnd ? { windowEnd: window.end } : {};
    const batch = {
      events: assembled.events,
      records: [...journal, ...gpus, ...evidence],
      ...advance,
    };
    const outcome = await appender.append(batch, signal, span);
    if (outcome.kind !== 'appended') return outcome;
    this.#closedHead = ledger.stats().sequence;
    const listed = scopes.host.filter((state) => state.listed);
    if (listed.length > 0) this.#closedUntil = least(listed.map(({ progress }) => progress.end));
    this.journal.appended();
    for (const { properties } of assembled.events) {
      const seconds = properties?.['uncertain_seconds'];
      if (typeof seconds === 'number') this.#options.metrics.uncertainSeconds.inc(seconds);
    }
    if (this.#lastWindow === undefined || window.end > this.#lastWindow.end) {
      this.#lastWindow = { start: window.start, end: window.end };
    }
    this.#options.onClosed();
    const durationMs = Math.round(clock.monotonic() - begun);
    const times = { closedAt, durationMs, backfilled };
    const result = { ...measured, ...assembled };
    const report = this.#reporter.report(closed, result, outcome.outcomes, times);
    const { windowMs } = settings().metering;
    await forgetEndedTenants({
      ...this.#options,
      scopes: scopes.tenants,
      journal: this.journal,
      windowMs,
    });
    // The window itself is safe. If this fails, the report stays in memory.
    await ledger.writeRecords(reports.add(report));
    return undefined;
  }

  #forOneSlice({ window, members }: DueWindow): DueWindow {
    const { quarantine } = this.#options;
    return { window, members: forOneSlice(members, (name) => quarantine.attempts(name)) };
  }

  /** Leaves out the tenant clusters whose journal still cannot be written. */
  #writable({ window, members }: DueWindow): DueWindow {
    return { window, members: members.filter((member) => this.journal.canWrite(member)) };
  }

  /** Quarantines the namespaces that caused a failure if they are known, else the scope. */
  #quarantineFailed({ scope, reason, namespaces = [] }: FailedScope): void {
    const { scopes, quarantine } = this.#options;
    const names = namespaces.length === 0 ? [scope.name] : scopes.setSeparate(scope, namespaces);
    for (const name of names) quarantine.add(name, reason);
  }

  #measure(next: DueWindow, still: Standstill, slice: TimeSlice): Generator<void, Measured> {
    const { clock, quarantine } = this.#options;
    return measureWindow(next, {
      now: () => clock.monotonic() - slice.othersMs,
      attempts: (name) => quarantine.attempts(name),
      isComplete: (member) => still.isUnchanged(member),
      settings: this.#options.settings(),
      reversals: this.#reversals,
    });
  }

  /** Whether the window ended before the start, or waited until the next one was due too. */
  #isBackfilled({ start, end }: Window): boolean {
    const { clock, settings } = this.#options;
    const { settlingDelayMs } = settings().metering;
    return end <= this.#startedAt || clock.now() - end > end - start + settlingDelayMs;
  }

  /**
   * Marks the window as closed in memory. What arrives during the append is then a late fact of it.
   * The append is retried until the ledger has it.
   */
  #settle({ window, members }: DueWindow): void {
    const { observation, scopes, gaps, settings, quarantine } = this.#options;
    const { windowMs, maxBackfillMs } = settings().metering;
    const validMs = sampleValidMs(windowMs);
    for (const member of members) {
      const { end, sizeMs } = window;
      const { scope } = member;
      member.progress = { ...member.progress, end, sizeMs };
      member.learntUntil = observation.tenantClusters.sequence;
      for (const timelines of scope.timelines) timelines.settle(end);
      gaps.filled(scope.gapsOf, end);
      quarantine.release(scope.name);
      if (scope.privateNodes === true) scope.observation.usage.prune(end, validMs);
    }
    scopes.rejoin(members);
    const ends = scopes.all.map(({ scope, progress }) => [scope.name, progress.end] as const);
    const oldest = least(ends.map(([, end]) => end));
    const pods = ends.filter(([name]) => name === 'pods' || name.startsWith('pods/'));
    observation.usage.prune(least(pods.map(([, end]) => end)), validMs);
    releaseLeft(observation, this.#options.clock.now());
    observation.tenantClusters.prune(oldest - maxBackfillMs);
  }

  #noteGaps({ window, members }: DueWindow, measured: Measured, now: number): void {
    const { gaps, metrics, settings, observation, privateNodes } = this.#options;
    const { privateNodeDiagnostics, excludedNodes } = measured;
    for (const id of privateNodeDiagnostics.keys())
      privateNodes.note(id, window, excludedNodes.get(id));
    // Without a discovery pass, the journal's tenant clusters may be older than the window.
    const isDiscovered = observation.tenantClusters.observedAt >= this.#startedAt;
    const noted = windowGaps({ window, members }, measured, { ...this.#options, isDiscovered });
    for (const gap of noted) {
      metrics.gapSeconds.inc({ source: gap.source }, gaps.note(gap) / 1000);
    }
    const retained = now - settings().ledger.retentionMs;
    gaps.prune(retained, Math.min(retained, now - PAST_GAPS_MS));
  }
}
