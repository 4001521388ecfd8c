import { setImmediate as yieldToLoop } from 'node:timers/promises';
import type { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Window } from '../model/window.ts';
import type { Measure, MeasuredCluster, Plan, Reading, SharedQuery } from './measure.ts';
import type { PrometheusClient } from './prometheus-client.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import type { QueryOutcome } from './query-answer.ts';

/** One metric of one tenant cluster in one window. */
export interface Job {
  readonly measure: Measure;
  readonly subject: MeasuredCluster;
  readonly window: Window;
}

/** A job, and what to ask about it. */
export type Question = readonly [job: Job, plan: Extract<Plan, { kind: 'ask' }>];

export type JobOutcome =
  | { readonly kind: 'read'; readonly reading: Reading }
  /** There is nothing to ask: switched off, or the tenant cluster has not the name that is asked by. */
  | { readonly kind: 'nothing' }
  | QueryFailure;

export interface QueryFailure {
  readonly kind: 'failed';
  /** As in {@link QueryOutcome}; `unasked` after the server has fallen silent. */
  readonly cause: 'server' | 'query' | 'unasked';
  readonly reason: string;
}

/** What one query about several jobs came to: an outcome for each, or for all. */
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

/** Queries at a time; Prometheus itself works on twenty. */
export const CONNECTIONS = 8;

/** Of an answer about many, so that reading it holds nothing else up for long; a larger one is asked for in parts. */
const MOST_BYTES = 2 * 1024 * 1024;

/** Readings in a row that nothing else waits for. */
const AT_A_STRETCH = 100;

/** Asks Prometheus, one request at a time each. */
export class Asker {
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

  async ask(
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
    const promql = shared.promql(subjects, window);
    const rows = await this.#query(measure.metric, promql, window.end, signal, MOST_BYTES);
    if (rows.kind === 'failed') return rows;
    const answers = rows.malformed.length === 0 ? shared.split(rows, subjects) : NOT_A_SAMPLE;
    if (typeof answers === 'string') return { kind: 'failed', cause: 'query', reason: answers };
    const outcomes: JobOutcome[] = [];
    for (const [index, answer] of answers.entries()) {
      if (index % AT_A_STRETCH === 0) await yieldToLoop();
      const wantsBeside = questions[index]?.[1].beside !== undefined;
      const wanted = wantsBeside ? answer : { rows: answer.rows };
      outcomes.push({ kind: 'read', reading: measure.read(wanted, window) });
    }
    return { kind: 'answered', outcomes };
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

const NOT_A_SAMPLE = 'the answer about all has rows that are no samples';

function label(outcome: QueryOutcome): string {
  if (outcome.kind === 'vector') return 'answered';
  return outcome.cause === 'server' ? 'unreachable' : 'failed';
}

/** Queries begun in a second, of all metrics together (docs/explanation/prometheus.md#one-query-for-all). */
export const QUERIES_PER_SECOND = 200;

/**
 * Waits until a further query may begin, or is given up: evenly many in every second; after a quiet one those of one
 * second may begin at once.
 */
export function createPace(clock: Clock, perSecond = QUERIES_PER_SECOND) {
  const spacingMs = 1000 / perSecond;
  /** When the next would begin if they were spaced evenly, monotonic. */
  let next = -Infinity;
  return async (signal: AbortSignal): Promise<void> => {
    const now = clock.monotonic();
    next = Math.max(now, next) + spacingMs;
    const waitMs = next - now - 1000;
    if (waitMs > 0) await clock.sleep(Math.ceil(waitMs), signal).catch(() => undefined);
  };
}
