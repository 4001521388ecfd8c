import { setImmediate as yieldToLoop } from 'node:timers/promises';
import type { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Window } from '../model/window.ts';
import type { Measure, MeasuredCluster, Plan, Reading, SharedQuery } from './measure.ts';
import type { PrometheusClient } from './prometheus-client.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import type { QueryOutcome } from './query-answer.ts';

/** One metric of one tenant cluster in one window. */
export interface QueryJob {
  readonly measure: Measure;
  readonly subject: MeasuredCluster;
  readonly window: Window;
}

/** A job and its query. */
export type Question = readonly [job: QueryJob, plan: Extract<Plan, { kind: 'query' }>];

export type JobOutcome =
  | { readonly kind: 'read'; readonly reading: Reading }
  /** No query needed: it is off, or the tenant cluster lacks the name that it selects by. */
  | { readonly kind: 'nothing' }
  | QueryFailure;

export interface QueryFailure {
  readonly kind: 'failed';
  /** As in {@link QueryOutcome}; `unsent` if not sent because the server is silent. */
  readonly cause: 'server' | 'query' | 'unsent';
  readonly reason: string;
}

/** The result of one query about several jobs: an outcome for each, or a failure of all. */
export type SharedOutcome =
  | { readonly kind: 'answered'; readonly outcomes: readonly JobOutcome[] }
  | QueryFailure;

/** Questions of one metric and window that one query answers; at least one. */
export interface Batch {
  readonly shared: SharedQuery;
  readonly measure: Measure;
  readonly window: Window;
  readonly questions: readonly Question[];
}

/** Parallel queries. Prometheus itself runs up to twenty. */
export const CONNECTIONS = 8;

/** Limit of a shared answer, so that reading never blocks the event loop. Larger: split. */
const MOST_BYTES = 2 * 1024 * 1024;

/** Readings without a yield to other work. */
const AT_A_STRETCH = 100;

/** Sends queries to Prometheus and reads the answers. */
export class QueryRunner {
  readonly #client: PrometheusClient;
  readonly #metrics: PrometheusMetrics;
  readonly #clock: Clock;
  readonly #log: CauseLog;
  readonly #pace: (signal: AbortSignal) => Promise<void>;

  constructor(client: PrometheusClient, metrics: PrometheusMetrics, clock: Clock, log: CauseLog) {
    this.#client = client;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#log = log;
    this.#pace = createPace(clock);
  }

  async queryOne(
    ...[{ measure, window }, plan, signal]: [...Question, AbortSignal]
  ): Promise<JobOutcome> {
    const { metric } = measure;
    const rows = await this.#query(metric, plan.promql, window.end, signal);
    if (rows.kind === 'failed') return rows;
    if (plan.beside === undefined) return { kind: 'read', reading: measure.read({ rows }, window) };
    const beside = await this.#query(metric, plan.beside, window.end, signal);
    if (beside.kind === 'vector') {
      return { kind: 'read', reading: measure.read({ rows, beside }, window) };
    }
    this.#log.warn(
      `${metric} beside ${beside.reason}`,
      `[metrics] prometheus: ${metric}: without the number of devices: ${beside.reason}`,
    );
    return { kind: 'read', reading: measure.read({ rows }, window) };
  }

  async queryShared(batch: Batch, signal: AbortSignal): Promise<SharedOutcome> {
    const { shared, measure, window, questions } = batch;
    const subjects = questions.map(([{ subject }]) => subject);
    const promql = shared.promql?.(subjects, window) ?? questions[0]?.[1].promql ?? '';
    const rows = await this.#query(measure.metric, promql, window.end, signal, MOST_BYTES);
    if (rows.kind === 'failed') return rows;
    const answers = rows.malformed.length === 0 ? shared.split(rows, subjects) : NOT_A_SAMPLE;
    if (typeof answers === 'string') return { kind: 'failed', cause: 'query', reason: answers };
    this.#reportStrangers(measure.metric, shared.strangers?.(rows, subjects) ?? []);
    const outcomes: JobOutcome[] = [];
    for (const [index, answer] of answers.entries()) {
      if (index % AT_A_STRETCH === 0) await yieldToLoop();
      if (typeof answer === 'string') {
        outcomes.push({ kind: 'failed', cause: 'query', reason: answer });
        continue;
      }
      const wantsBeside = questions[index]?.[1].beside !== undefined;
      const wanted = wantsBeside ? answer : { rows: answer.rows };
      outcomes.push({ kind: 'read', reading: measure.read(wanted, window) });
    }
    return { kind: 'answered', outcomes };
  }

  #reportStrangers(metric: string, strangers: readonly string[]): void {
    if (strangers.length > 0) this.#metrics.refusedRows.inc({ metric }, strangers.length);
    for (const problem of new Set(strangers)) {
      this.#log.warn(
        `${metric} row ${problem}`,
        `[metrics] prometheus: ${metric}: not charged: ${problem}`,
      );
    }
  }

  async #query(
    metric: string,
    promql: string,
    at: number,
    signal: AbortSignal,
    mostBytes?: number,
  ): Promise<QueryOutcome> {
    await this.#pace(signal);
    const begun = this.#clock.monotonic();
    const outcome = await this.#client.query(promql, at, signal, mostBytes);
    if (signal.aborted) return outcome;
    this.#metrics.querySeconds.observe((this.#clock.monotonic() - begun) / 1000);
    this.#metrics.queries.inc({ metric, outcome: label(outcome) });
    return outcome;
  }
}

const NOT_A_SAMPLE = 'the combined answer has rows that are no samples';

function label(outcome: QueryOutcome): string {
  if (outcome.kind === 'vector') return 'answered';
  return outcome.cause === 'server' ? 'unreachable' : 'failed';
}

/** Queries a second, of all metrics (docs/explanation/prometheus.md#one-query-for-all). */
export const QUERIES_PER_SECOND = 200;

/**
 * Returns a function that waits until the next query may begin or the signal aborts. Queries are
 * spaced evenly. After a quiet second, those of one second may begin at once.
 */
export function createPace(clock: Clock, perSecond = QUERIES_PER_SECOND) {
  const spacingMs = 1000 / perSecond;
  /** When the next query would begin with even spacing, monotonic. */
  let next = -Infinity;
  return async (signal: AbortSignal): Promise<void> => {
    const now = clock.monotonic();
    next = Math.max(now, next) + spacingMs;
    const waitMs = next - now - 1000;
    if (waitMs > 0) await clock.sleep(Math.ceil(waitMs), signal).catch(() => undefined);
  };
}
