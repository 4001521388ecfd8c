import { setImmediate as yieldToLoop } from 'node:timers/promises';
import type { Window } from '../model/window.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { AppendEnd } from '../metering/windows/appender.ts';
import type { QueryRunner, QueryJob, JobOutcome, Question } from './query.ts';
import type { BatchSizes } from './batch-sizes.ts';
import type { Measure, MeasuredCluster } from './measure.ts';
import { type Answered, Pass } from './pass.ts';
import { subjectsOf, type TenantClusterStates } from './subjects.ts';
import { edgesOf, windowsOf } from './unanswered.ts';
import type { WindowState } from './window-state.ts';

const BUDGET_MS = 5_000;
const FIRST_WAIT_MS = 15_000;
const LONGEST_WAIT_MS = 300_000;

interface RetrySlice {
  readonly pass: Pass;
  readonly signal: AbortSignal;
  subjects(window: Window): ReadonlyMap<string, MeasuredCluster>;
}

/** One metric of one tenant cluster in a pass. */
interface Lane {
  readonly metric: string;
  readonly tenantCluster: string;
  /** Its newest window was answered in this pass. */
  readonly isAnswered: boolean;
}

/** Lanes without a yield to other work. */
const AT_A_STRETCH = 100;

/**
 * Retries failed queries. For each metric of a tenant cluster, it tries the newest window first. If
 * that is answered, it continues with the others from the oldest on. If the newest window fails,
 * the metric counts as failing and opening a window does not wait for it.
 */
export class Retries {
  readonly #options;
  readonly #waits = new Map<
    string,
    {
      /** Monotonic. */
      readonly until: number;
      readonly ms: number;
    }
  >();
  readonly #failing = new Set<string>();

  constructor(options: {
    readonly state: WindowState;
    readonly runner: Pick<QueryRunner, 'queryOne' | 'queryShared'>;
    readonly sizes: BatchSizes;
    readonly measures: () => readonly Measure[];
    readonly tenantClusters: TenantClusterStates;
    readonly clock: Clock;
    readonly random: () => number;
  }) {
    this.#options = options;
  }

  /** Runs for a few seconds at most, so that windows are opened in time. */
  async run(signal: AbortSignal): Promise<AppendEnd | undefined> {
    const { state, runner, sizes, clock } = this.#options;
    const now = clock.monotonic();
    let lanes: readonly Lane[] = state.unanswered
      .list()
      .filter(
        (work) => (this.#waits.get(keyOf(work.metric, work.tenantCluster))?.until ?? 0) <= now,
      )
      .map(({ metric, tenantCluster }) => ({ metric, tenantCluster, isAnswered: false }));
    if (lanes.length === 0) return undefined;
    const isOver = (): boolean => signal.aborted || clock.monotonic() >= now + BUDGET_MS;
    const pass = new Pass(runner, sizes, signal, () => !isOver());
    const slice: RetrySlice = { pass, signal, subjects: this.#subjectsOnce() };
    while (lanes.length > 0 && !isOver()) lanes = await this.#queryNext(lanes, slice);
    // Nothing is written after a stop: answered windows are queried again.
    if (signal.aborted) return { kind: 'aborted' };
    return state.commit(signal);
  }

  /** Why a metric of a tenant cluster is failing; undefined if it is not. */
  isFailing(metric: string, tenantCluster: string): string | undefined {
    return this.#failing.has(keyOf(metric, tenantCluster))
      ? this.#options.state.unanswered.find(metric, tenantCluster)?.reason
      : undefined;
  }

  /** Notes that the query about its newest window failed. */
  failed(metric: string, tenantCluster: string): void {
    const key = keyOf(metric, tenantCluster);
    this.#failing.add(key);
    this.#wait(key);
  }

  #subjectsOnce(): RetrySlice['subjects'] {
    const known = new Map<number, ReadonlyMap<string, MeasuredCluster>>();
    return (window) => {
      const subjects = known.get(window.end) ?? subjectsOf(this.#options.tenantClusters, window);
      known.set(window.end, subjects);
      return subjects;
    };
  }

  #wait(key: string): void {
    const { clock, random } = this.#options;
    const ms = Math.min((this.#waits.get(key)?.ms ?? FIRST_WAIT_MS / 2) * 2, LONGEST_WAIT_MS);
    this.#waits.set(key, { until: clock.monotonic() + ms * (0.5 + random() / 2), ms });
  }

  /** Queries the next window of each lane. Returns the lanes with more windows. */
  async #queryNext(lanes: readonly Lane[], slice: RetrySlice): Promise<readonly Lane[]> {
    const questions: Question[] = [];
    const laneOf = new Map<QueryJob, Lane>();
    const answers: Answered[] = [];
    const goOn = new Map<Lane, Lane>();
    for (const [index, lane] of lanes.entries()) {
      if (index % AT_A_STRETCH === 0) await yieldToLoop();
      const job = this.#nextJob(lane, slice);
      if (job === 'dropped') goOn.set(lane, { ...lane, isAnswered: true });
      if (job === undefined || job === 'dropped') continue;
      laneOf.set(job, lane);
      const plan = job.measure.plan(job.subject, job.window);
      if (plan.kind === 'query') questions.push([job, plan]);
      else if (plan.kind !== 'unclear') answers.push([job, { kind: 'nothing' }]);
      else answers.push([job, { kind: 'failed', cause: 'query', reason: plan.reason }]);
    }
    answers.push(...(await slice.pass.queryAll(questions)));
    if (slice.signal.aborted) return [];
    for (const [index, [job, outcome]] of answers.entries()) {
      if (index % AT_A_STRETCH === 0) await yieldToLoop();
      const lane = laneOf.get(job);
      if (lane !== undefined && this.#settle(lane, job, outcome)) {
        goOn.set(lane, { ...lane, isAnswered: true });
      }
    }
    return [...goOn.values()];
  }

  /** The next query of a lane, newest window first; undefined if nothing is left. */
  #nextJob(
    { metric, tenantCluster, isAnswered }: Lane,
    slice: RetrySlice,
  ): QueryJob | 'dropped' | undefined {
    const { state, measures } = this.#options;
    const runs = state.unanswered.find(metric, tenantCluster)?.runs ?? [];
    const edges = edgesOf(runs);
    if (edges === undefined) return undefined;
    const measure = measures().find((one) => one.metric === metric);
    if (measure === undefined) {
      // The metric is not configured.
      state.drop(metric, tenantCluster, windowsOf(runs));
      this.#failing.delete(keyOf(metric, tenantCluster));
      return undefined;
    }
    const window = isAnswered ? edges.oldest : edges.newest;
    const subject = slice.subjects(window).get(tenantCluster);
    if (subject !== undefined) return { measure, subject, window };
    // Excluded since then, or not known: there is nobody to bill.
    state.drop(metric, tenantCluster, [window]);
    return 'dropped';
  }

  /** Records an outcome. Returns whether the lane continues. */
  #settle(
    { metric, tenantCluster, isAnswered }: Lane,
    job: QueryJob,
    outcome: JobOutcome,
  ): boolean {
    if (outcome.kind === 'failed' && outcome.cause === 'unsent') return false;
    this.#options.state.record(job, outcome);
    const key = keyOf(metric, tenantCluster);
    if (outcome.kind === 'failed') {
      if (isAnswered) this.#wait(key);
      else this.failed(metric, tenantCluster);
      return false;
    }
    if (!isAnswered) {
      this.#failing.delete(key);
      this.#waits.delete(key);
    }
    return true;
  }
}

function keyOf(metric: string, tenantCluster: string): string {
  return `${metric}/${tenantCluster}`;
}
