import type { Settings } from '../settings/settings.ts';
import type { Ledger, RecordStore } from '../ledger/ledger.ts';
import { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Window } from '../model/window.ts';
import { type AppendEnd, Appender } from '../metering/windows/appender.ts';
import type { Gap } from '../metering/windows/gaps.ts';
import { QueryRunner } from './query.ts';
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
  /** What is measured. It is called again for every window. */
  readonly measures: () => readonly Measure[];
  readonly tenantClusters: TenantClusterStates;
  /** The newest window that the collector has closed. Tenant clusters are known up to its end. */
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
 * Metering by Prometheus (docs/explanation/prometheus.md#measured-by-prometheus): queries every
 * metric of every tenant cluster for every window once.
 * 1. It opens windows in order, after the collector has closed them.
 * 2. Opening one sends every query for it and records answers and failures in one durable batch.
 * 3. Failed queries are retried until MAX_BACKFILL and are gaps meanwhile.
 * 4. While the server is silent, no window is opened, and a single gap covers everything.
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
    this.#appender = new Appender({ ledger, clock, random, logger });
    const startedAt = clock.now();
    const state = new WindowState({ ...options, appender: this.#appender, log, startedAt });
    const runner = new QueryRunner(client, metrics, clock, log);
    const common = { ...options, log, state, runner, sizes: new BatchSizes() };
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

  /** Windows that are not answered yet or were given up, newest first. */
  gaps(): readonly Gap[] {
    const { settings, clock } = this.#options;
    const { ledger: stored } = settings();
    return this.#state
      .gaps(this.#opener.silent ?? 'not queried yet')
      .filter(({ to }) => to >= clock.now() - stored.retentionMs)
      .toSorted((a, b) => b.to - a.to);
  }

  /** Problems of the last window's queries. */
  report(): PrometheusReport {
    return this.#opener.report;
  }

  /**
   * The query that applies today to the window of an event. Undefined for metrics that Prometheus
   * does not measure; without a query if the tenant cluster is unknown now.
   */
  question(event: UsageEvent): { readonly promql?: string } | undefined {
    const { measures, tenantClusters } = this.#options;
    const measure = measures().find(({ metric }) => metric === event.metric);
    if (measure === undefined) return undefined;
    const { window_start: start, window_end: end } = event;
    const window = { start: Date.parse(start), end: Date.parse(end) };
    const subjects = subjectsOf(tenantClusters, window);
    const [some] = subjects.values();
    const id = measure.ofTenant ? some?.firstClusters.get(event.tenant) : event.resource_id;
    const subject = subjects.get(id ?? '');
    const plan = subject === undefined ? undefined : measure.plan(subject, window);
    return plan?.kind === 'query' ? { promql: plan.promql } : {};
  }

  async #slice(signal: AbortSignal): Promise<AppendEnd | undefined> {
    if (!this.#appender.mayAppend()) return undefined;
    const expired = await this.#state.giveUpExpired(signal);
    if (expired !== undefined) return expired;
    while (!signal.aborted) {
      const opened = await this.#opener.openNext(signal);
      if (opened === 'none') break;
      if (opened !== 'opened') return opened;
    }
    return this.#opener.silent === undefined ? this.#retries.run(signal) : undefined;
  }
}

/** Deletes all stored work. While PROMETHEUS_URL is not set, no window waits for an answer. */
export async function forgetPrometheusWork(ledger: RecordStore): Promise<void> {
  const changes: { readonly key: string; readonly value: undefined }[] = [];
  for await (const [key] of ledger.records('prometheus/')) changes.push({ key, value: undefined });
  if (changes.length > 0) await ledger.writeRecords(changes);
}
