import { setImmediate as yieldToLoop } from 'node:timers/promises';
import type { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Window } from '../model/window.ts';
import type { Answer, Measure, MeasuredCluster, Plan, Reading, SharedQuery } from './measure.ts';
import type { Pace } from './pace.ts';
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
  | AskFailure;

export interface AskFailure {
  readonly kind: 'failed';
  /** As in {@link QueryOutcome}; `unasked` after the server has fallen silent. */
  readonly cause: 'server' | 'query' | 'unasked';
  readonly reason: string;
}

/** What one query about several jobs came to: an outcome for each, or for all. */
export type SharedOutcome =
  | { readonly kind: 'answered'; readonly outcomes: readonly JobOutcome[] }
  | AskFailure;

/** Questions of one metric and window that one query answers; at least one. */
export interface Batch {
  readonly shared: SharedQuery;
  readonly measure: Measure;
  readonly window: Window;
  readonly questions: readonly Question[];
}

/** Asks Prometheus, one request at a time each. */
export interface Asker {
  ask(...question: [...Question, signal: AbortSignal]): Promise<JobOutcome>;
  askShared(batch: Batch, signal: AbortSignal): Promise<SharedOutcome>;
}

export interface AskerOptions {
  readonly client: PrometheusClient;
  readonly metrics: PrometheusMetrics;
  readonly clock: Clock;
  readonly log: CauseLog;
  readonly pace: Pace;
}

/** Queries at a time; Prometheus itself works on twenty. */
export const CONNECTIONS = 8;

/** Of an answer about many, so that reading it holds nothing else up for long; a larger one is asked for in parts. */
const MOST_BYTES = 2 * 1024 * 1024;

/** Readings in a row that nothing else waits for. */
const AT_A_STRETCH = 100;

export function createAsker({ client, metrics, clock, log, pace }: AskerOptions): Asker {
  const query = async (
    metric: string,
    promql: string,
    at: number,
    signal: AbortSignal,
    mostBytes?: number,
  ): Promise<QueryOutcome> => {
    await pace(signal);
    const begun = clock.monotonic();
    const outcome = await client.query(promql, at, signal, mostBytes);
    if (signal.aborted) return outcome;
    metrics.querySeconds.observe((clock.monotonic() - begun) / 1000);
    metrics.queries.inc({ metric, outcome: label(outcome) });
    return outcome;
  };
  return {
    ask: async ({ measure, window }, plan, signal) => {
      const { metric } = measure;
      const rows = await query(metric, plan.promql, window.end, signal);
      if (rows.kind === 'failed') return rows;
      if (plan.beside === undefined)
        return { kind: 'read', reading: measure.read({ rows }, window) };
      const beside = await query(metric, plan.beside, window.end, signal);
      if (beside.kind === 'vector') {
        return { kind: 'read', reading: measure.read({ rows, beside }, window) };
      }
      log.warn(
        `${metric} beside ${beside.reason}`,
        `[metrics] prometheus: ${metric}: without the number of devices: ${beside.reason}`,
      );
      return { kind: 'read', reading: measure.read({ rows }, window) };
    },
    askShared: async ({ shared, measure, window, questions }, signal) => {
      const subjects = questions.map(([{ subject }]) => subject);
      const promql = shared.promql(subjects, window);
      const rows = await query(measure.metric, promql, window.end, signal, MOST_BYTES);
      if (rows.kind === 'failed') return rows;
      const answers = rows.malformed.length === 0 ? shared.split(rows, subjects) : NOT_A_SAMPLE;
      if (typeof answers === 'string') return { kind: 'failed', cause: 'query', reason: answers };
      const outcomes: JobOutcome[] = [];
      for (const [index, answer] of answers.entries()) {
        if (index % AT_A_STRETCH === 0) await yieldToLoop();
        const wanted = questions[index]?.[1].beside === undefined ? withoutBeside(answer) : answer;
        outcomes.push({ kind: 'read', reading: measure.read(wanted, window) });
      }
      return { kind: 'answered', outcomes };
    },
  };
}

const NOT_A_SAMPLE = 'the answer about all has rows that are no samples';

function withoutBeside({ rows }: Answer): Answer {
  return { rows };
}

function label(outcome: QueryOutcome): string {
  if (outcome.kind === 'vector') return 'answered';
  return outcome.cause === 'server' ? 'unreachable' : 'failed';
}
