import type { Settings } from '../config/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { UsageEvent } from '../model/event.ts';
import { formatInstant, type Window } from '../model/window.ts';
import type { Appender } from '../windows/appender.ts';
import { createGaps, type Gap } from '../windows/gaps.ts';
import { expiredStretch, firstProgress, nextWindow, type Progress } from '../windows/schedule.ts';
import type { Job, JobOutcome } from './ask.ts';
import { measuredEvents } from './measured-events.ts';
import { createPending, type Pending, PENDING_PREFIX } from './pending.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import { windowsOf } from './window-runs.ts';

/** Why metering by Prometheus has ended: asked to, or because the ledger is fenced or damaged. */
export type MeteringEnd =
  | { readonly kind: 'aborted' }
  | { readonly kind: 'ledger'; readonly reason: string };

/**
 * How far windows are opened, what of them is pending and what was given up, kept in records of the
 * ledger: `prometheus/state`, `prometheus/pending/…`, `prometheus/gap/…`. Every change is written in the
 * same durable unit as the events that it is about.
 */
export interface Books {
  readonly pending: Pick<Pending, 'list' | 'find' | 'windows'>;
  /** Reads what an earlier life left; the first of all begins with the first full window. */
  restore(): Promise<void>;
  /** The window to be opened next. */
  next(): Window;
  /** Counts a window as opened; durable with the next {@link commit}. */
  advance(window: Window): void;
  /** Enters what a job came to: its events, or its window among what is pending. */
  enter(job: Job, outcome: JobOutcome): void;
  /** Takes windows off that nobody is to be charged for any more. */
  drop(metric: string, tenantCluster: string, windows: readonly Window[]): void;
  /** Writes what was entered; the end when the ledger cannot go on, or when told to stop. */
  commit(signal: AbortSignal): Promise<MeteringEnd | undefined>;
  /** Gives up what is older than MAX_BACKFILL, and says so. */
  giveUpExpired(signal: AbortSignal): Promise<MeteringEnd | undefined>;
  /** `waiting` is why windows that are due are not opened. */
  gaps(waiting: string): readonly Gap[];
  /** When a window is due, wall clock: its last samples have to arrive first. */
  dueAt(window: Window): number;
}

export interface BooksOptions {
  readonly ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
  readonly settings: () => Settings;
  readonly lastWindow: () => Window | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly log: CauseLog;
  readonly metrics: PrometheusMetrics;
  readonly appender: Appender;
  readonly startedAt: number;
}

export const STATE_KEY = 'prometheus/state';
const GAP_PREFIX = 'prometheus/gap/';
const SOURCE = 'prometheus';
const EVERYBODY = '*';
const EXPIRED = 'older than MAX_BACKFILL';

/** Exporters and scrapes lag by up to half a minute; in small windows there is no time for that. */
const LONGEST_DELAY_MS = 30_000;
const SHORTEST_DELAY_MS = 5_000;

export function createBooks(options: BooksOptions): Books {
  const { ledger, clock, logger, log, metrics, appender } = options;
  const pending = createPending();
  const givenUp = createGaps(GAP_PREFIX);
  const metering = () => options.settings().metering;
  let progress: Progress = firstProgress(options.startedAt, metering().windowMs);
  let events: UsageEvent[] = [];
  let changed = false;

  const next = (): Window => nextWindow(progress, metering().windowMs);
  const dueAt = ({ start, end }: Window): number =>
    end + Math.min(LONGEST_DELAY_MS, Math.max(SHORTEST_DELAY_MS, (end - start) / 2));
  const isLate = (window: Window): boolean =>
    window.end <= options.startedAt || clock.now() > dueAt(window) + (window.end - window.start);

  const enterReading = (
    { measure, subject, window }: Job,
    reading: Extract<JobOutcome, { kind: 'read' }>['reading'],
  ): void => {
    const { metric } = measure;
    const { identity } = options.settings();
    const made = measuredEvents(measure, subject.cluster, reading, {
      window,
      region: identity.region,
      defaultTenantClass: identity.defaultTenantClass,
      recordedAt: new Date(clock.now()).toISOString(),
      backfilled: isLate(window),
    });
    events.push(...made.events);
    for (const problem of made.refused) {
      metrics.refusedRows.inc({ metric });
      log.warn(
        `${metric} row ${problem}`,
        `[metrics] prometheus: ${metric} of "${subject.cluster.id}": not charged: ${problem}`,
      );
    }
  };

  const giveUp = (scope: string, window: Window, reason: string): void => {
    givenUp.note({ source: SOURCE, scope, from: window.start, to: window.end, reason });
    changed = true;
    logger.error(`[metrics] prometheus: not metered, ${reason}: "${scope}"`, {
      from: formatInstant(window.start),
      to: formatInstant(window.end),
    });
  };

  const commit = async (signal: AbortSignal): Promise<MeteringEnd | undefined> => {
    if (!changed) return undefined;
    givenUp.prune(clock.now() - options.settings().ledger.retentionMs);
    const { end, sizeMs } = progress;
    const state = { key: STATE_KEY, value: JSON.stringify({ v: 1, end, sizeMs }) };
    const records = [...pending.drain(), ...givenUp.drain(), state];
    const batch = events;
    events = [];
    changed = false;
    const outcome = await appender.append({ events: batch, records }, signal);
    if (outcome.kind !== 'appended') return outcome;
    const conflicts = outcome.outcomes.filter((kind) => kind === 'conflict').length;
    if (conflicts > 0) {
      logger.error(
        `[metrics] prometheus: ${conflicts} events differ from those stored; the stored ones stay`,
      );
    }
    return undefined;
  };

  return {
    pending,
    next,
    dueAt,
    commit,
    restore: async () => {
      pending.restore(await collect(ledger.records(PENDING_PREFIX)));
      givenUp.restore(await collect(ledger.records(GAP_PREFIX)));
      const stored = parseState(await ledger.record(STATE_KEY));
      if (stored !== undefined) {
        progress = stored;
        return;
      }
      const value = JSON.stringify({ v: 1, ...progress });
      await ledger.writeRecords([{ key: STATE_KEY, value }]);
    },
    advance: ({ start, end }) => {
      progress = { end, sizeMs: end - start };
      changed = true;
    },
    enter: (job, outcome) => {
      const { metric } = job.measure;
      const { id } = job.subject.cluster;
      if (outcome.kind === 'failed') {
        pending.add(metric, id, job.window, outcome.reason);
        log.warn(
          `${metric} ${outcome.reason}`,
          `[metrics] prometheus: ${metric} of "${id}": ${outcome.reason}`,
        );
      } else {
        if (outcome.kind === 'read') enterReading(job, outcome.reading);
        pending.remove(metric, id, job.window);
      }
      changed = true;
    },
    drop: (metric, tenantCluster, windows) => {
      for (const window of windows) pending.remove(metric, tenantCluster, window);
      changed = true;
    },
    giveUpExpired: async (signal) => {
      const { windowMs, maxBackfillMs } = metering();
      const now = clock.now();
      const expired = expiredStretch(progress, windowMs, now, maxBackfillMs);
      if (expired !== undefined) {
        progress = expired.progress;
        giveUp(EVERYBODY, expired, EXPIRED);
      }
      const oldest = now - Math.max(maxBackfillMs, 2 * windowMs);
      for (const { metric, tenantCluster, reason, runs } of pending.list()) {
        // Looked at every second: most are young.
        if (runs.every(({ from, sizeMs }) => from + sizeMs > oldest)) continue;
        const old = windowsOf(runs).filter(({ end }) => end <= oldest);
        const [first] = old;
        const last = old.at(-1);
        if (first === undefined || last === undefined) continue;
        for (const window of old) pending.remove(metric, tenantCluster, window);
        metrics.givenUpWindows.inc({ metric }, old.length);
        const stretch = { start: first.start, end: last.end };
        giveUp(tenantCluster, stretch, `${EXPIRED}: ${metric}: ${reason}`);
      }
      return commit(signal);
    },
    gaps: (waiting) => {
      const open = pending.list().flatMap(({ metric, tenantCluster, reason, runs }) =>
        runs.map(({ from, to }) => ({
          source: SOURCE,
          scope: tenantCluster,
          from,
          to,
          reason: `${metric}: ${reason}`,
        })),
      );
      const window = next();
      const to = options.lastWindow()?.end ?? 0;
      const overdue = clock.now() > dueAt(window) + (window.end - window.start) && to >= window.end;
      const all = { source: SOURCE, scope: EVERYBODY, from: window.start, to, reason: waiting };
      return [...givenUp.list(), ...open, ...(overdue ? [all] : [])];
    },
  };
}

function parseState(text: string | undefined): Progress | undefined {
  if (text === undefined) return undefined;
  const { v, end, sizeMs } = JSON.parse(text) as Partial<Progress> & { readonly v?: unknown };
  if (v !== 1 || end === undefined || sizeMs === undefined) return undefined;
  return { end, sizeMs };
}

async function collect<T>(values: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const value of values) list.push(value);
  return list;
}
