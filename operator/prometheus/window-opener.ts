import { setImmediate as yieldToLoop } from 'node:timers/promises';
import type { Window } from '../model/window.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { AppendEnd } from '../metering/windows/appender.ts';
import type { QueryRunner, Question } from './query.ts';
import type { BatchSizes } from './batch-sizes.ts';
import type { Measure, Plan } from './measure.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import {
  countLeftOut,
  describeLeftOut,
  type LeftOutJob,
  type LeftOutQuery,
  newlyLeftOut,
  type PrometheusReport,
} from './prometheus-report.ts';
import type { Retries } from './retries.ts';
import { type Answered, Pass } from './pass.ts';
import { subjectsOf, type TenantClusterStates } from './subjects.ts';
import type { WindowState } from './window-state.ts';

const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 60_000;

/**
 * More queries about a single tenant cluster in one window cause a warning
 * (docs/explanation/prometheus.md#one-query-for-all).
 */
export const MANY_QUERIES = 1_000;

/** Tenant clusters or answers without a yield to other work. */
const AT_A_STRETCH = 100;

/** Opens windows in order: sends every query of a window once and records answers and failures. */
export class WindowOpener {
  readonly #options;
  #silent: string | undefined;
  #tenantQueries = 0;
  #leftOut: readonly LeftOutQuery[] = [];
  #pauseMs = FIRST_PAUSE_MS;
  /** Monotonic. */
  #pausedUntil = -Infinity;

  constructor(options: {
    readonly state: WindowState;
    readonly runner: Pick<QueryRunner, 'queryOne' | 'queryShared'>;
    readonly sizes: BatchSizes;
    readonly retries: Pick<Retries, 'isFailing' | 'failed'>;
    readonly measures: () => readonly Measure[];
    readonly tenantClusters: TenantClusterStates;
    readonly lastWindow: () => Window | undefined;
    readonly clock: Clock;
    readonly random: () => number;
    readonly logger: Logger;
    readonly metrics: PrometheusMetrics;
  }) {
    this.#options = options;
  }

  /** Problems of the last window's queries. */
  get report(): PrometheusReport {
    const { silent, manyQueries } = this;
    return { silent, manyQueries, leftOut: this.#leftOut };
  }

  /**
   * Number of queries in the last window about a single tenant cluster; undefined up to {@link
   * MANY_QUERIES}.
   */
  get manyQueries(): number | undefined {
    return this.#tenantQueries > MANY_QUERIES ? this.#tenantQueries : undefined;
  }

  /** Why the server answers no query; undefined while it answers. */
  get silent(): string | undefined {
    return this.#silent;
  }

  /**
   * Opens the next window. Returns `none` if no window is due or the server is silent, and the end
   * if the ledger cannot continue, or on abort.
   */
  async openNext(signal: AbortSignal): Promise<'opened' | 'none' | AppendEnd> {
    const { state, clock, retries } = this.#options;
    const window = state.next;
    const closed = this.#options.lastWindow()?.end ?? -Infinity;
    if (closed < window.end || state.dueAt(window) > clock.now()) return 'none';
    if (clock.monotonic() < this.#pausedUntil) return 'none';
    const { questions, known } = await this.#prepare(window);
    const answers = await this.#queryAll(questions, signal);
    if (signal.aborted) return { kind: 'aborted' };
    const reason = silenceOf(answers);
    if (reason !== undefined) {
      this.#fallSilent(reason);
      return 'none';
    }
    if (questions.length > 0) this.#speakAgain();
    for (const [index, [job, outcome]] of [...known, ...answers].entries()) {
      if (index % AT_A_STRETCH === 0) await yieldToLoop();
      state.record(job, outcome);
      if (outcome.kind === 'failed' && outcome.cause !== 'unsent') {
        retries.failed(job.measure.metric, job.subject.cluster.id);
      }
    }
    state.advance(window);
    return (await state.commit(signal)) ?? 'opened';
  }

  /** The queries to send; `known` has the outcomes that need no query. */
  async #prepare(window: Window): Promise<{ questions: Question[]; known: Answered[] }> {
    const { retries, measures, tenantClusters } = this.#options;
    const questions: Question[] = [];
    const known: Answered[] = [];
    const leftOut: LeftOutJob[] = [];
    const subjects = [...subjectsOf(tenantClusters, window).values()];
    for (const [index, subject] of subjects.entries()) {
      if (index % AT_A_STRETCH === 0) await yieldToLoop();
      for (const measure of measures()) {
        const job = { measure, subject, window };
        const plan = measure.plan(subject, window);
        const { metric } = measure;
        const placeholder = plan.kind === 'nameless' ? plan.placeholder : namelessBeside(plan);
        if (placeholder !== undefined) {
          leftOut.push({ metric, placeholder, tenantCluster: subject.cluster.id });
        }
        if (plan.kind === 'unclear') {
          known.push([job, { kind: 'failed', cause: 'query', reason: plan.reason }]);
        }
        if (plan.kind !== 'query') continue;
        const failing = retries.isFailing(metric, subject.cluster.id);
        if (failing === undefined) questions.push([job, plan]);
        else known.push([job, { kind: 'failed', cause: 'unsent', reason: failing }]);
      }
    }
    this.#countTenantQueries(questions);
    this.#noteLeftOut(countLeftOut(leftOut));
    return { questions, known };
  }

  #noteLeftOut(leftOut: readonly LeftOutQuery[]): void {
    const { metrics, logger } = this.#options;
    for (const query of newlyLeftOut(leftOut, this.#leftOut)) {
      logger.warn(`[metrics] prometheus: ${describeLeftOut(query)}`);
    }
    metrics.leftOut.reset();
    for (const { metric, placeholder, tenantClusters } of leftOut) {
      metrics.leftOut.set({ metric, placeholder }, tenantClusters);
    }
    this.#leftOut = leftOut;
  }

  #countTenantQueries(questions: readonly Question[]): void {
    const { metrics, logger } = this.#options;
    const queries = new Set(
      questions.flatMap(([{ measure }, { promql, beside, shared }]) =>
        shared === undefined
          ? [promql, ...(beside === undefined ? [] : [beside])].map(
              (text) => `${measure.metric} ${text}`,
            )
          : [],
      ),
    );
    const wereMany = this.manyQueries !== undefined;
    this.#tenantQueries = queries.size;
    metrics.tenantQueries.set(queries.size);
    if (wereMany || this.manyQueries === undefined) return;
    logger.warn(
      `[metrics] prometheus: ${queries.size} queries in every window name one tenant cluster each; above ${MANY_QUERIES} write recording rules and query their results`,
    );
  }

  /** After silence, sends one random query first and the others only if it is answered. */
  async #queryAll(questions: readonly Question[], signal: AbortSignal): Promise<Answered[]> {
    const { runner, sizes, random } = this.#options;
    const pass = new Pass(runner, sizes, signal);
    const answers: Answered[] = [];
    const tried = this.#silent === undefined ? -1 : Math.floor(random() * questions.length);
    const trial = questions[tried];
    if (trial !== undefined) {
      answers.push(...(await pass.queryAll([trial])));
      if (answers.some(([, one]) => one.kind === 'failed' && one.cause === 'server'))
        return answers;
    }
    const others = questions.filter((_, index) => index !== tried);
    return [...answers, ...(await pass.queryAll(others))];
  }

  #fallSilent(reason: string): void {
    const { clock, random, logger, metrics } = this.#options;
    if (this.#silent === undefined) {
      logger.warn(`[metrics] prometheus: does not answer: ${reason}`);
    }
    this.#silent = reason;
    metrics.unreachable.set(1);
    this.#pausedUntil = clock.monotonic() + this.#pauseMs * (0.5 + random() / 2);
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
  }

  #speakAgain(): void {
    const { logger, metrics } = this.#options;
    if (this.#silent !== undefined) logger.info('[metrics] prometheus: answers again');
    this.#silent = undefined;
    metrics.unreachable.set(0);
    this.#pauseMs = FIRST_PAUSE_MS;
  }
}

function namelessBeside(plan: Plan): string | undefined {
  return plan.kind === 'query' ? plan.namelessBeside : undefined;
}

/** Why no query was answered; undefined if one was, or none was sent. */
function silenceOf(answers: readonly Answered[]): string | undefined {
  const reasons = answers.map(([, outcome]) =>
    outcome.kind === 'failed' && outcome.cause !== 'query' ? outcome.reason : undefined,
  );
  return reasons.every((reason) => reason !== undefined) ? reasons[0] : undefined;
}
