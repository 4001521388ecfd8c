import type { Settings } from '../settings/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { UsageEvent } from '../model/event.ts';
import { formatInstant, type Window } from '../model/window.ts';
import type { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { AppendEnd, Appender } from '../metering/windows/appender.ts';
import { type Gap, Gaps } from '../metering/windows/gaps.ts';
import {
  expiredStretch,
  firstProgress,
  nextWindow,
  type Progress,
} from '../metering/windows/schedule.ts';
import type { QueryJob, JobOutcome } from './query.ts';
import { measuredEvents, type Reading } from './measure.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import { Unanswered, UNANSWERED_PREFIX, windowsOf } from './unanswered.ts';
import { UtilizationRecords } from './utilization-records.ts';

const STATE_KEY = 'prometheus/state';
const GAP_PREFIX = 'prometheus/gap/';
const SOURCE = 'prometheus';
const EVERYBODY = '*';
const EXPIRED = 'older than MAX_BACKFILL';

/** Exporters and scrapes lag by up to half a minute. Small windows wait for less. */
const LONGEST_DELAY_MS = 30_000;
const SHORTEST_DELAY_MS = 5_000;

/**
 * How far windows are opened, which are unanswered, and which were given up. Records of the ledger
 * store it: `prometheus/state`, `prometheus/pending/…`, `prometheus/gap/…` and
 * `gpus/utilization/…`. Each change is written in the same durable batch as its events.
 */
export class WindowState {
  readonly #options;
  readonly #unanswered = new Unanswered();
  readonly #givenUp = new Gaps(GAP_PREFIX);
  readonly #utilization: UtilizationRecords;
  #progress: Progress;
  #events: UsageEvent[] = [];
  #changed = false;

  constructor(options: {
    readonly ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
    readonly settings: () => Settings;
    readonly lastWindow: () => Window | undefined;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly log: CauseLog;
    readonly metrics: PrometheusMetrics;
    readonly appender: Appender;
    /** Wall clock, milliseconds. */
    readonly startedAt: number;
  }) {
    this.#options = options;
    this.#utilization = new UtilizationRecords(options);
    this.#progress = firstProgress(options.startedAt, this.#metering.windowMs);
  }

  /** The windows to query again. */
  get unanswered(): Pick<Unanswered, 'list' | 'find' | 'windows'> {
    return this.#unanswered;
  }

  get next(): Window {
    return nextWindow(this.#progress, this.#metering.windowMs);
  }

  /** Reads the records of an earlier process. Without any, begins with the first full window. */
  async restore(): Promise<void> {
    const { ledger } = this.#options;
    this.#unanswered.restore(await Array.fromAsync(ledger.records(UNANSWERED_PREFIX)));
    this.#givenUp.restore(await Array.fromAsync(ledger.records(GAP_PREFIX)));
    const stored = parseState(await ledger.record(STATE_KEY));
    if (stored !== undefined) {
      this.#progress = stored;
      return;
    }
    await ledger.writeRecords([{ key: STATE_KEY, value: encodeState(this.#progress) }]);
  }

  /** When a window is due, wall clock. Its last samples have to arrive first. */
  dueAt({ start, end }: Window): number {
    return end + Math.min(LONGEST_DELAY_MS, Math.max(SHORTEST_DELAY_MS, (end - start) / 2));
  }

  /** Counts a window as opened; durable with the next {@link commit}. */
  advance({ start, end }: Window): void {
    this.#progress = { end, sizeMs: end - start };
    this.#changed = true;
  }

  /** Records the outcome of a job: its events, or its window as unanswered. */
  record(job: QueryJob, outcome: JobOutcome): void {
    const { metric } = job.measure;
    const { id } = job.subject.cluster;
    if (outcome.kind === 'failed') {
      this.#unanswered.add(metric, id, job.window, outcome.reason);
      this.#options.log.warn(
        `${metric} ${outcome.reason}`,
        `[metrics] prometheus: ${metric} of "${id}": ${outcome.reason}`,
      );
    } else {
      if (outcome.kind === 'read') this.#recordReading(job, outcome.reading);
      this.#unanswered.remove(metric, id, job.window);
    }
    this.#changed = true;
  }

  /** Removes windows without a tenant to bill. */
  drop(metric: string, tenantCluster: string, windows: readonly Window[]): void {
    for (const window of windows) this.#unanswered.remove(metric, tenantCluster, window);
    this.#changed = true;
  }

  /** Writes what was recorded. Returns the end if the ledger cannot continue, or on abort. */
  async commit(signal: AbortSignal): Promise<AppendEnd | undefined> {
    if (!this.#changed) return undefined;
    const { clock, settings, appender, logger } = this.#options;
    const gpus = await this.#utilization.drain(signal);
    if (gpus.kind !== 'drained') return gpus;
    this.#givenUp.prune(clock.now() - settings().ledger.retentionMs);
    const state = { key: STATE_KEY, value: encodeState(this.#progress) };
    const pending = [...this.#unanswered.drain(), ...this.#givenUp.drain(), state];
    const records = [...pending, ...gpus.changes];
    const events = this.#events;
    this.#events = [];
    this.#changed = false;
    const outcome = await appender.append({ events, records }, signal);
    if (outcome.kind !== 'appended') return outcome;
    const conflicts = outcome.outcomes.filter((kind) => kind === 'conflict').length;
    if (conflicts > 0) {
      logger.error(
        `[metrics] prometheus: ${conflicts} events differ from those stored; the stored ones stay`,
      );
    }
    return undefined;
  }

  /** Gives up windows older than MAX_BACKFILL, with a gap and a log line. */
  async giveUpExpired(signal: AbortSignal): Promise<AppendEnd | undefined> {
    const { windowMs, maxBackfillMs } = this.#metering;
    const now = this.#options.clock.now();
    const expired = expiredStretch(this.#progress, windowMs, now, maxBackfillMs);
    if (expired !== undefined) {
      this.#progress = expired.progress;
      this.#giveUp(EVERYBODY, expired, EXPIRED);
    }
    this.#giveUpUnanswered(now - Math.max(maxBackfillMs, 2 * windowMs));
    return this.commit(signal);
  }

  /** What could not be measured; `waiting` is the reason why due windows are not opened. */
  gaps(waiting: string): readonly Gap[] {
    const open = this.#unanswered.list().flatMap(({ metric, tenantCluster, reason, runs }) =>
      runs.map(({ from, to }) => ({
        source: SOURCE,
        scope: tenantCluster,
        from,
        to,
        reason: `${metric}: ${reason}`,
      })),
    );
    const window = this.next;
    const to = this.#options.lastWindow()?.end ?? 0;
    const overdue = this.#isOverdue(window) && to >= window.end;
    const all = { source: SOURCE, scope: EVERYBODY, from: window.start, to, reason: waiting };
    return [...this.#givenUp.list(), ...open, ...(overdue ? [all] : [])];
  }

  get #metering(): Settings['metering'] {
    return this.#options.settings().metering;
  }

  /** Whether the window should have been opened at least one window size ago. */
  #isOverdue(window: Window): boolean {
    return this.#options.clock.now() > this.dueAt(window) + (window.end - window.start);
  }

  #recordReading({ measure, subject, window }: QueryJob, reading: Reading): void {
    const { metric } = measure;
    const { settings, clock, startedAt, metrics, log } = this.#options;
    const { region, defaultTenantClass } = settings().identity;
    const made = measuredEvents(measure, subject.cluster, reading, {
      window,
      region,
      defaultTenantClass,
      recordedAt: new Date(clock.now()).toISOString(),
      backfilled: window.end <= startedAt || this.#isOverdue(window),
    });
    for (const event of made.events) this.#events.push(event);
    this.#utilization.note(window, subject.cluster.tenant, reading.utilization ?? []);
    for (const problem of made.refused) {
      metrics.refusedRows.inc({ metric });
      log.warn(
        `${metric} row ${problem}`,
        `[metrics] prometheus: ${metric} of "${subject.cluster.id}": not charged: ${problem}`,
      );
    }
  }

  #giveUpUnanswered(oldest: number): void {
    const { metrics } = this.#options;
    for (const { metric, tenantCluster, reason, runs } of this.#unanswered.list()) {
      // This runs every second, and most windows are young.
      if (runs.every(({ from, sizeMs }) => from + sizeMs > oldest)) continue;
      const old = windowsOf(runs).filter(({ end }) => end <= oldest);
      const [first] = old;
      const last = old.at(-1);
      if (first === undefined || last === undefined) continue;
      for (const window of old) this.#unanswered.remove(metric, tenantCluster, window);
      metrics.givenUpWindows.inc({ metric }, old.length);
      const stretch = { start: first.start, end: last.end };
      this.#giveUp(tenantCluster, stretch, `${EXPIRED}: ${metric}: ${reason}`);
    }
  }

  #giveUp(scope: string, { start, end }: Window, reason: string): void {
    this.#givenUp.note({ source: SOURCE, scope, from: start, to: end, reason });
    this.#changed = true;
    this.#options.logger.error(`[metrics] prometheus: not metered, ${reason}: "${scope}"`, {
      from: formatInstant(start),
      to: formatInstant(end),
    });
  }
}

function encodeState({ end, sizeMs }: Progress): string {
  return JSON.stringify({ v: 1, end, sizeMs });
}

function parseState(text: string | undefined): Progress | undefined {
  if (text === undefined) return undefined;
  const { v, end, sizeMs } = JSON.parse(text) as Partial<Progress> & { readonly v?: unknown };
  if (v !== 1 || end === undefined || sizeMs === undefined) return undefined;
  return { end, sizeMs };
}
