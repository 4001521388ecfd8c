import type { Settings } from '../config/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { assembleEvents } from '../metering/assemble.ts';
import { type Credit, settleCredits } from '../metering/credits.ts';
import { createFindings, type Findings, type MeterSettings } from '../metering/meter.ts';
import { createTally } from '../metering/tally.ts';
import type { Observation } from '../observation/observation.ts';
import { sampleHoldMs } from '../observation/usage-samples.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { UsageEvent } from '../usage/event.ts';
import { formatInstant, type Window } from '../usage/window.ts';
import type { Appender } from './appender.ts';
import type { CollectorEnd } from './collector.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import type { Gaps } from './gaps.ts';
import {
  type CollectorState,
  createJournalWriter,
  encodeState,
  type RestoredJournal,
  STATE_KEY,
} from './journal.ts';
import { expiredStretch, nextWindow, type NextWindow } from './schedule.ts';
import { obstacle } from './scope.ts';
import type { Scopes, ScopeUnderWay } from './scopes.ts';
import type { WindowReport, WindowReports } from './window-report.ts';

/** Closes windows, each scope's once. */
export interface WindowCloser {
  /** Remembers where the first start of all begins, so that a crash before the first window moves nothing. */
  begin(): Promise<void>;
  /** Closes everything that is due and can be closed, oldest first; the collector's end when it cannot go on. */
  closeDue(signal: AbortSignal): Promise<CollectorEnd | undefined>;
  /** When the next window is due, wall clock. */
  nextDue(): number;
  readonly lastWindow: Window | undefined;
}

export interface WindowCloserOptions {
  readonly observation: Observation;
  readonly restored: RestoredJournal;
  readonly ledger: Pick<Ledger, 'stats' | 'writeRecords'>;
  readonly settings: () => Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly scopes: Scopes;
  readonly gaps: Gaps;
  readonly reports: WindowReports;
  readonly metrics: CollectorMetrics;
  readonly appender: Appender;
  readonly metricsFailure: () => { readonly reason: string; readonly since: number } | undefined;
}

const UNATTRIBUTED_SHOWN = 10;

const STARTING = { source: 'startup', reason: 'not listed yet' };
const UNDISCOVERED = { source: 'discovery', reason: 'tenant clusters are not known yet' };

export function createWindowCloser(options: WindowCloserOptions): WindowCloser {
  const { observation, clock, logger, scopes, gaps, reports, metrics, appender } = options;
  const journal = createJournalWriter(observation);
  const startedAt = clock.now();
  let credits: readonly Credit[] = options.restored.state?.credits ?? [];
  let lastWindow = lastWindowOf(options.ledger.stats().lastWindowEnd, scopes.windowMs);
  const metering = () => options.settings().metering;

  const upcoming = (one: ScopeUnderWay): NextWindow =>
    nextWindow(one.progress, metering().windowMs);
  const dueAt = (window: Window): number => window.end + metering().settlingDelayMs;

  /** What is older than MAX_BACKFILL is given up, and said so. */
  const giveUpExpired = (one: ScopeUnderWay, now: number): void => {
    const { windowMs, maxBackfillMs } = metering();
    const expired = expiredStretch(one.progress, windowMs, now, maxBackfillMs);
    if (expired === undefined) return;
    // Late facts before it are given up with it: a credit for it would give back what was never billed.
    one.progress = { ...expired.progress, meteredFrom: expired.end };
    const { start: from, end: to } = expired;
    const reason = 'older than MAX_BACKFILL';
    const added = gaps.note({ source: 'collector', scope: one.scope.name, from, to, reason });
    metrics.gapSeconds.inc({ source: 'collector' }, added / 1000);
    logger.error(`[controller] not metered, ${reason}: ${one.scope.name}`, {
      from: formatInstant(from),
      to: formatInstant(to),
    });
  };

  const obstacleOf = (one: ScopeUnderWay, window: Window) => {
    if (!one.listed) return obstacle(one.scope.sources, Infinity) ?? STARTING;
    if (observation.tenantClusters.observedAt === 0) return UNDISCOVERED;
    return obstacle(one.scope.sources, dueAt(window));
  };

  /** Whether a scope's view of a window is whole; if not, the gap is open until it is filled. */
  const isReady = (one: ScopeUnderWay, window: Window): boolean => {
    const blocked = obstacleOf(one, window);
    if (blocked === undefined) return true;
    const now = clock.now();
    const size = window.end - window.start;
    if (now < Math.max(dueAt(window), startedAt) + size) return false;
    const to = Math.max(window.end, Math.floor(now / size) * size);
    gaps.note({ ...blocked, scope: one.scope.name, from: window.start, to });
    return false;
  };

  /** The oldest window that can be closed, with every scope whose next window it is. */
  const nextGroup = (now: number): { window: Window; members: ScopeUnderWay[] } | undefined => {
    const ready = scopes.all.filter((one) => {
      giveUpExpired(one, now);
      const window = upcoming(one);
      return dueAt(window) <= now && isReady(one, window);
    });
    const [oldest] = ready.map(upcoming).toSorted((a, b) => a.end - b.end || a.start - b.start);
    if (oldest === undefined) return undefined;
    const { start, end } = oldest;
    const members = ready.filter((one) => {
      const window = upcoming(one);
      return window.start === start && window.end === end;
    });
    return { window: { start, end }, members };
  };

  const measure = (window: Window, members: readonly ScopeUnderWay[]) => {
    const tally = createTally();
    const findings = createFindings();
    for (const { scope, progress, learntUntil } of members) {
      const { meteredFrom } = progress;
      const settings = meterSettings(options.settings(), window);
      const input = { window, observation, meteredFrom, learntUntil, settings, tally, findings };
      for (const meter of scope.meters) meter(input);
    }
    const { maxBackfillMs } = metering();
    return { findings, ...settleCredits(tally.charges(), credits, window.end, maxBackfillMs) };
  };

  /** From here on the window counts as closed in memory; the ledger is told until it has it. */
  const settle = (window: NextWindow | Window, members: readonly ScopeUnderWay[]): void => {
    for (const one of members) {
      const { sizeMs } = upcoming(one);
      one.progress = { ...one.progress, end: window.end, sizeMs };
      one.learntUntil = observation.tenantClusters.sequence;
      for (const timelines of one.scope.timelines) timelines.settle(window.end);
      for (const { source } of gaps.list().filter((gap) => gap.scope === one.scope.name)) {
        if (source !== 'collector') gaps.fill(source, one.scope.name, window.end);
      }
    }
    const oldest = Math.min(...scopes.all.map(({ progress }) => progress.end));
    const pods = scopes.all.find(({ scope }) => scope.name === 'pods')?.progress.end ?? oldest;
    observation.usage.prune(pods, sampleHoldMs(metering().windowMs));
    observation.tenantClusters.prune(oldest - metering().maxBackfillMs);
  };

  const stateOf = (): CollectorState => ({
    scopes: Object.fromEntries(scopes.all.map(({ scope, progress }) => [scope.name, progress])),
    credits,
    watches: scopes.watchPoints(clock.now()),
    tenantClustersObservedAt: observation.tenantClusters.observedAt,
  });

  /** Usage that nobody sampled is a gap, not a zero. */
  const noteUnsampled = (window: Window, { unsampled }: Findings): void => {
    if (unsampled.size === 0) return;
    const failure = options.metricsFailure();
    const reason = failure?.reason ?? 'pods without samples';
    const note = (scope: string, from: number, to: number): void => {
      const added = gaps.note({ source: 'metrics', scope, from, to, reason });
      metrics.gapSeconds.inc({ source: 'metrics' }, added / 1000);
    };
    // While nothing at all can be read, one gap stands for every tenant cluster.
    if (failure !== undefined && failure.since <= window.start) {
      const stretches = [...unsampled.values()];
      const from = Math.min(...stretches.map((stretch) => stretch.from));
      note('*', from, Math.max(...stretches.map((stretch) => stretch.to)));
      return;
    }
    for (const [id, { from, to }] of unsampled) note(id, from, to);
  };

  const close = async (
    window: Window,
    members: readonly ScopeUnderWay[],
    signal: AbortSignal,
  ): Promise<CollectorEnd | undefined> => {
    const begun = clock.monotonic();
    const now = clock.now();
    const backfilled =
      window.end <= startedAt ||
      now - window.end > window.end - window.start + metering().settlingDelayMs;
    const recordedAt = new Date(now).toISOString();
    const measured = measure(window, members);
    const { events, refused } = assembleEvents(measured.settled, {
      window,
      recordedAt,
      backfilled,
    });
    ({ credits } = measured);
    settle(window, members);
    if (members.some(({ scope }) => scope.name === 'pods'))
      noteUnsampled(window, measured.findings);
    gaps.prune(now - options.settings().ledger.retentionMs);
    const records = [...journal.drain(stateOf()), ...gaps.drain()];
    const { lastWindowEnd = -Infinity } = options.ledger.stats();
    const advance = window.end > lastWindowEnd ? { windowEnd: window.end } : {};
    const outcome = await appender.append({ events, records, ...advance }, signal);
    if (outcome.kind !== 'appended') return outcome;
    if (lastWindow === undefined || window.end > lastWindow.end) lastWindow = window;
    const report: WindowReport = {
      windowStart: formatInstant(window.start),
      windowEnd: formatInstant(window.end),
      closedAt: recordedAt,
      durationMs: Math.round(clock.monotonic() - begun),
      scopes: members.map(({ scope }) => scope.name),
      events: events.length,
      duplicates: outcome.outcomes.filter((kind) => kind === 'duplicate').length,
      conflicts: outcome.outcomes.filter((kind) => kind === 'conflict').length,
      tenants: new Set(events.map((event) => event.tenant)).size,
      tenantClusters: observation.tenantClusters.current.length,
      backfilled,
      gaps: gaps.list().filter((gap) => gap.from < window.end && gap.to > window.start),
      refused,
      unattributed: {
        total: measured.findings.unattributed.size,
        items: [...measured.findings.unattributed].slice(0, UNATTRIBUTED_SHOWN),
      },
      openCreditSeconds: credits.reduce((sum, { ms }) => sum - ms, 0) / 1000,
      unsettledCreditSeconds: measured.unsettledMs / 1000,
    };
    tell(report, events);
    // Only a report: the window itself is safe, and the report stays in memory if this fails.
    await options.ledger.writeRecords(reports.add(report));
    return undefined;
  };

  const tell = (report: WindowReport, events: readonly UsageEvent[]): void => {
    metrics.closeSeconds.observe(report.durationMs / 1000);
    metrics.events.set(events.length);
    if (report.backfilled) metrics.backfilledWindows.inc();
    metrics.unsettledCreditSeconds.inc(report.unsettledCreditSeconds);
    const time = report.windowEnd.slice(11, 19);
    const { pods } = observation;
    const late = report.backfilled ? ', backfilled' : '';
    logger.info(
      `[controller] window ${time}: ${report.events} events for ${report.tenantClusters} tenant cluster(s) (${pods.size} pods)${late}`,
    );
    if (report.conflicts > 0) {
      logger.error(
        `[controller] window ${time}: ${report.conflicts} events differ from those stored; the stored ones stay`,
      );
    }
    for (const problem of report.refused) logger.error(`[controller] not billed: ${problem}`);
  };

  return {
    get lastWindow() {
      return lastWindow;
    },
    begin: async () => {
      if (options.restored.state !== undefined) return;
      await options.ledger.writeRecords([{ key: STATE_KEY, value: encodeState(stateOf()) }]);
    },
    nextDue: () => Math.min(...scopes.all.map((one) => dueAt(upcoming(one)))),
    closeDue: async (signal) => {
      while (!signal.aborted) {
        if (!appender.mayAppend()) return undefined;
        const group = nextGroup(clock.now());
        const oldest = Math.min(...scopes.all.map((one) => upcoming(one).end));
        metrics.lateSeconds.set(Math.max(0, clock.now() - oldest) / 1000);
        if (group === undefined) return undefined;
        const end = await close(group.window, group.members, signal);
        if (end !== undefined) return end;
      }
      return undefined;
    },
  };
}

function lastWindowOf(end: number | undefined, sizeMs: number): Window | undefined {
  return end === undefined ? undefined : { start: end - sizeMs, end };
}

function meterSettings(settings: Settings, window: Window): MeterSettings {
  const { identity } = settings;
  return {
    region: identity.region,
    regionFromNode: identity.regionFromNode,
    sampleHoldMs: sampleHoldMs(window.end - window.start),
    ...(identity.zone === undefined ? {} : { zone: identity.zone }),
    ...(identity.defaultTenantClass === undefined
      ? {}
      : { defaultTenantClass: identity.defaultTenantClass }),
  };
}
