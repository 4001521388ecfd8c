import type { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Window } from '../model/window.ts';
import type { Measure, MeasuredCluster, Plan, Reading } from './measure.ts';
import type { PrometheusClient } from './prometheus-client.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import type { QueryOutcome } from './query-answer.ts';

/** One metric of one tenant cluster in one window. */
export interface Job {
  readonly measure: Measure;
  readonly subject: MeasuredCluster;
  readonly window: Window;
}

export type JobOutcome =
  | { readonly kind: 'read'; readonly reading: Reading }
  /** There is nothing to ask: switched off, or the tenant cluster has not the name that is asked by. */
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'failed';
      /** As in {@link QueryOutcome}; `unasked` after the server has fallen silent. */
      readonly cause: 'server' | 'query' | 'unasked';
      readonly reason: string;
    };

/** Asks Prometheus for jobs, some at a time. */
export interface Asker {
  ask(job: Job, plan: Extract<Plan, { kind: 'ask' }>, signal: AbortSignal): Promise<JobOutcome>;
}

export interface AskerOptions {
  readonly client: PrometheusClient;
  readonly metrics: PrometheusMetrics;
  readonly clock: Clock;
  readonly log: CauseLog;
}

/** Queries at a time; Prometheus itself works on twenty. */
export const CONNECTIONS = 8;

export function createAsker({ client, metrics, clock, log }: AskerOptions): Asker {
  const query = async (
    metric: string,
    promql: string,
    at: number,
    signal: AbortSignal,
  ): Promise<QueryOutcome> => {
    const begun = clock.monotonic();
    const outcome = await client.query(promql, at, signal);
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
  };
}

function label(outcome: QueryOutcome): string {
  if (outcome.kind === 'vector') return 'answered';
  return outcome.cause === 'server' ? 'unreachable' : 'failed';
}

/** So many queries in a row without an answer mean that the server has fallen silent. */
const SILENT_AFTER = 8;

/**
 * One round of questions. Once the server has fallen silent no more are asked, and none that is under
 * way is waited for: thousands of them would each wait for a time-out.
 */
export interface Round {
  ask(job: Job, plan: Extract<Plan, { kind: 'ask' }>): Promise<JobOutcome>;
  /** Why nothing more is asked; undefined while there is hope. */
  readonly silent: string | undefined;
}

export function createRound(asker: Asker, signal: AbortSignal): Round {
  const hopeless = new AbortController();
  const either = AbortSignal.any([signal, hopeless.signal]);
  let inARow = 0;
  let silent: string | undefined;
  return {
    get silent() {
      return silent;
    },
    ask: async (job, plan) => {
      if (silent !== undefined) return { kind: 'failed', cause: 'unasked', reason: silent };
      const outcome = await asker.ask(job, plan, either);
      if (outcome.kind !== 'failed' || outcome.cause === 'query') {
        inARow = 0;
        return outcome;
      }
      if (silent !== undefined) return { kind: 'failed', cause: 'unasked', reason: silent };
      inARow += 1;
      if (inARow >= SILENT_AFTER) {
        silent = outcome.reason;
        hopeless.abort();
      }
      return outcome;
    },
  };
}
