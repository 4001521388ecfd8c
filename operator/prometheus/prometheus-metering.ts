import type { Settings } from '../config/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createCauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Window } from '../model/window.ts';
import { type AppendEnd, createAppender } from '../windows/appender.ts';
import type { Gap } from '../windows/gaps.ts';
import { createAsker } from './ask.ts';
import { createBatchSizes } from './batch-sizes.ts';
import type { Measure } from './measure.ts';
import { createPace } from './pace.ts';
import type { PrometheusClient } from './prometheus-client.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import type { PrometheusReport } from './prometheus-report.ts';
import { Retries } from './retries.ts';
import { subjectsOf, type TenantClusterHistory } from './subjects.ts';
import { WindowOpener } from './window-opener.ts';
import { WindowState } from './window-state.ts';

/** Asks Prometheus about every window of every tenant cluster, each metric once. */
export interface PrometheusMetering {
  run(signal: AbortSignal): Promise<AppendEnd>;
  /** What could not be had yet, and what was given up. Newest first. */
  gaps(): readonly Gap[];
  /** What is wrong with the queries of the last window. */
  report(): PrometheusReport;
  /** What stands behind an event of a metric that is measured here; undefined for all others. */
  question(event: UsageEvent): Question | undefined;
}

/** What is asked today for a window of the past; absent where the tenant cluster is no longer known. */
export interface Question {
  readonly promql?: string;
}

export interface PrometheusMeteringOptions {
  readonly client: PrometheusClient;
  /** What is measured; asked again for every window. */
  readonly measures: () => readonly Measure[];
  readonly tenantClusters: TenantClusterHistory;
  /** The newest window that the collector has closed: who the tenant clusters were is known up to there. */
  readonly lastWindow: () => Window | undefined;
  readonly ledger: Pick<Ledger, 'append' | 'stats' | 'record' | 'records' | 'writeRecords'>;
  readonly settings: () => Settings;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: PrometheusMetrics;
}

const LOOK_MS = 1_000;

/**
 * The Prometheus half of metering (docs/metering.md#measured-by-prometheus). Windows are opened in order, once the collector
 * has closed them; opening one asks every query of it and records what came and what did not in one
 * durable batch. What did not come is asked again by itself until MAX_BACKFILL, and is a gap meanwhile.
 * While the server is silent no window is opened, so nothing is recorded but one gap of all.
 */
export function createPrometheusMetering(options: PrometheusMeteringOptions): PrometheusMetering {
  const { ledger, clock, logger, settings, metrics } = options;
  const log = createCauseLog(logger, clock);
  const appender = createAppender({ ledger, clock, random: options.random, logger });
  const startedAt = clock.now();
  const state = new WindowState({ ...options, appender, log, startedAt });
  const asker = createAsker({
    client: options.client,
    metrics,
    clock,
    log,
    pace: createPace(clock),
  });
  const common = { ...options, log, state, asker, sizes: createBatchSizes() };
  const retries = new Retries(common);
  const opener = new WindowOpener({ ...common, retries });

  const turn = async (signal: AbortSignal): Promise<AppendEnd | undefined> => {
    if (!appender.mayAppend()) return undefined;
    const expired = await state.giveUpExpired(signal);
    if (expired !== undefined) return expired;
    while (!signal.aborted) {
      const opened = await opener.openNext(signal);
      if (opened.kind === 'ended') return opened.end;
      if (opened.kind === 'none') break;
    }
    return opener.silent === undefined ? retries.run(signal) : undefined;
  };

  return {
    run: async (signal) => {
      await state.restore();
      while (!signal.aborted) {
        const end = await turn(signal);
        if (end !== undefined) return end;
        const oldest = state.next;
        metrics.lagSeconds.set(Math.max(0, clock.now() - oldest.end) / 1000);
        metrics.pendingWindows.set(state.unanswered.windows());
        await clock.sleep(LOOK_MS, signal).catch(() => undefined);
      }
      return { kind: 'aborted' };
    },
    report: () => opener.report,
    question: (event) => {
      const measure = options.measures().find(({ metric }) => metric === event.metric);
      if (measure === undefined) return undefined;
      const { window_start: start, window_end: end } = event;
      const window = { start: Date.parse(start), end: Date.parse(end) };
      const subjects = subjectsOf(options.tenantClusters, window);
      const subject = subjects.get(event.resource_id ?? '');
      const plan = subject === undefined ? undefined : measure.plan(subject, window);
      return plan?.kind === 'ask' ? { promql: plan.promql } : {};
    },
    gaps: () => {
      const reason = opener.silent ?? 'not asked yet';
      const { ledger: kept } = settings();
      return state
        .gaps(reason)
        .filter(({ to }) => to >= clock.now() - kept.retentionMs)
        .toSorted((a, b) => b.to - a.to);
    },
  };
}

/** Forgets all of it: where PROMETHEUS_URL is not set, nothing is owed to windows of meanwhile. */
export async function forgetPrometheusWork(
  ledger: Pick<Ledger, 'records' | 'writeRecords'>,
): Promise<void> {
  const changes: { readonly key: string; readonly value: undefined }[] = [];
  for await (const [key] of ledger.records('prometheus/')) changes.push({ key, value: undefined });
  if (changes.length > 0) await ledger.writeRecords(changes);
}
