import type { Settings } from '../settings/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Window } from '../model/window.ts';
import { type AppendEnd, type Appender, createAppender } from '../metering/windows/appender.ts';
import type { Gap } from '../metering/windows/gaps.ts';
import { Asker } from './query.ts';
import { BatchSizes } from './batch-sizes.ts';
import type { Measure } from './measure.ts';
import type { PrometheusClient } from './prometheus-client.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import type { PrometheusReport } from './prometheus-report.ts';
import { Retries } from './retries.ts';
import { subjectsOf, type TenantClusterStates } from './subjects.ts';
import { WindowOpener } from './window-opener.ts';
import { WindowState } from './window-state.ts';

export interface PrometheusMeteringOptions {
  readonly client: PrometheusClient;
  /** What is measured; asked again for every window. */
  readonly measures: () => readonly Measure[];
  readonly tenantClusters: TenantClusterStates;
  /** The newest window that the collector has closed: who the tenant clusters were is known up to there. */
  readonly lastWindow: () => Window | undefined;
  readonly ledger: Pick<Ledger, 'append' | 'stats' | 'record' | 'records' | 'writeRecords'>;
  readonly settings: () => Settings;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: PrometheusMetrics;
}

const POLL_MS = 1_000;

/**
 * The Prometheus half of metering (docs/explanation/prometheus.md#measured-by-prometheus): asks about every window of every tenant
 * cluster, each metric once. Windows are opened in order, once the collector
 * has closed them; opening one asks every query of it and records what came and what did not in one
 * durable batch. What did not come is asked again by itself until MAX_BACKFILL, and is a gap meanwhile.
 * While the server is silent no window is opened, so nothing is recorded but one gap of all.
 */
export class PrometheusMetering {
  readonly #options: PrometheusMeteringOptions;
  readonly #appender: Appender;
  readonly #state: WindowState;
  readonly #retries: Retries;
  readonly #opener: WindowOpener;

  constructor(options: PrometheusMeteringOptions) {
    const { client, ledger, clock, random, logger, metrics } = options;
    const log = new CauseLog(logger, clock);
    this.#options = options;
    this.#appender = createAppender({ ledger, clock, random, logger });
    const startedAt = clock.now();
    const state = new WindowState({ ...options, appender: this.#appender, log, startedAt });
    const asker = new Asker(client, metrics, clock, log);
    const common = { ...options, log, state, asker, sizes: new BatchSizes() };
    this.#state = state;
    this.#retries = new Retries(common);
    this.#opener = new WindowOpener({ ...common, retries: this.#retries });
  }

  async run(signal: AbortSignal): Promise<AppendEnd> {
    const { clock, metrics } = this.#options;
    await this.#state.restore();
    while (!signal.aborted) {
      const end = await this.#slice(signal);
      if (end !== undefined) return end;
      const oldest = this.#state.next;
      metrics.lagSeconds.set(Math.max(0, clock.now() - oldest.end) / 1000);
      metrics.pendingWindows.set(this.#state.unanswered.windows());
      await clock.sleep(POLL_MS, signal).catch(() => undefined);
    }
    return { kind: 'aborted' };
  }

  /** What could not be had yet, and what was given up. Newest first. */
  gaps(): readonly Gap[] {
    const { settings, clock } = this.#options;
    const { ledger: stored } = settings();
    return this.#state
      .gaps(this.#opener.silent ?? 'not asked yet')
      .filter(({ to }) => to >= clock.now() - stored.retentionMs)
      .toSorted((a, b) => b.to - a.to);
  }

  /** What is wrong with the queries of the last window. */
  report(): PrometheusReport {
    return this.#opener.report;
  }

  /**
   * What is asked today for the window of an event of a metric that is measured here; undefined for all others. Without
   * a query where the tenant cluster is no longer known.
   */
  question(event: UsageEvent): { readonly promql?: string } | undefined {
    const { measures, tenantClusters } = this.#options;
    const measure = measures().find(({ metric }) => metric === event.metric);
    if (measure === undefined) return undefined;
    const { window_start: start, window_end: end } = event;
    const window = { start: Date.parse(start), end: Date.parse(end) };
    const subject = subjectsOf(tenantClusters, window).get(event.resource_id ?? '');
    const plan = subject === undefined ? undefined : measure.plan(subject, window);
    return plan?.kind === 'ask' ? { promql: plan.promql } : {};
  }

  async #slice(signal: AbortSignal): Promise<AppendEnd | undefined> {
    if (!this.#appender.mayAppend()) return undefined;
    const expired = await this.#state.giveUpExpired(signal);
    if (expired !== undefined) return expired;
    while (!signal.aborted) {
      const opened = await this.#opener.openNext(signal);
      if (opened.kind === 'ended') return opened.end;
      if (opened.kind === 'none') break;
    }
    return this.#opener.silent === undefined ? this.#retries.run(signal) : undefined;
  }
}

/** Forgets all of it: where PROMETHEUS_URL is not set, nothing is owed to windows of meanwhile. */
export async function forgetPrometheusWork(
  ledger: Pick<Ledger, 'records' | 'writeRecords'>,
): Promise<void> {
  const changes: { readonly key: string; readonly value: undefined }[] = [];
  for await (const [key] of ledger.records('prometheus/')) changes.push({ key, value: undefined });
  if (changes.length > 0) await ledger.writeRecords(changes);
}
