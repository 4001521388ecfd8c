import pLimit from 'p-limit';
import type { Window } from '../model/window.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { AppendEnd } from '../windows/appender.ts';
import { type Asker, CONNECTIONS, createRound, type JobOutcome, type Round } from './ask.ts';
import type { Measure, MeasuredCluster } from './measure.ts';
import { subjectsOf, type TenantClusterHistory } from './subjects.ts';
import { type UnansweredWindows, windowsOf } from './unanswered.ts';
import type { WindowState } from './window-state.ts';

export interface RetriesOptions {
  readonly state: WindowState;
  readonly asker: Asker;
  readonly measures: () => readonly Measure[];
  readonly tenantClusters: TenantClusterHistory;
  readonly clock: Clock;
  readonly random: () => number;
}

const BUDGET_MS = 5_000;
const FIRST_WAIT_MS = 15_000;
const LONGEST_WAIT_MS = 300_000;

interface Wait {
  /** Monotonic. */
  readonly until: number;
  readonly ms: number;
}

/** One turn of retries. */
interface Turn {
  readonly deadline: number;
  readonly round: Round;
  readonly signal: AbortSignal;
  subjects(window: Window): ReadonlyMap<string, MeasuredCluster>;
}

/**
 * Asks again what failed: first about the newest window, then, while that is answered, about the others
 * from the oldest on. A metric of a tenant cluster whose newest window fails is failing: opening a
 * window does not wait for it.
 */
export class Retries {
  readonly #options: RetriesOptions;
  readonly #waits = new Map<string, Wait>();
  readonly #failing = new Set<string>();

  constructor(options: RetriesOptions) {
    this.#options = options;
  }

  /** Works for a few seconds at most, so that windows are opened in time. */
  async run(signal: AbortSignal): Promise<AppendEnd | undefined> {
    const { state, asker, clock } = this.#options;
    const now = clock.monotonic();
    const due = state.unanswered
      .list()
      .filter(
        (work) => (this.#waits.get(keyOf(work.metric, work.tenantCluster))?.until ?? 0) <= now,
      );
    if (due.length === 0) return undefined;
    const turn: Turn = {
      deadline: now + BUDGET_MS,
      round: createRound(asker, signal),
      signal,
      subjects: this.#subjectsOnce(),
    };
    await pLimit(CONNECTIONS).map(due, (work) => this.#goThrough(work, turn));
    // What was answered is asked once more after a stop: nothing of it is written by half.
    if (signal.aborted) return { kind: 'aborted' };
    return state.commit(signal);
  }

  /** Why a metric of a tenant cluster is failing; undefined when it is not. */
  isFailing(metric: string, tenantCluster: string): string | undefined {
    return this.#failing.has(keyOf(metric, tenantCluster))
      ? this.#options.state.unanswered.find(metric, tenantCluster)?.reason
      : undefined;
  }

  /** It was asked about its newest window and failed. */
  failed(metric: string, tenantCluster: string): void {
    const key = keyOf(metric, tenantCluster);
    this.#failing.add(key);
    this.#wait(key);
  }

  #subjectsOnce(): Turn['subjects'] {
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

  async #goThrough(work: UnansweredWindows, turn: Turn): Promise<void> {
    const { state, clock, measures } = this.#options;
    const isOver = (): boolean => turn.signal.aborted || clock.monotonic() >= turn.deadline;
    if (isOver()) return;
    const key = keyOf(work.metric, work.tenantCluster);
    const measure = measures().find(({ metric }) => metric === work.metric);
    const windows = windowsOf(work.runs);
    const newest = windows.pop();
    if (measure === undefined || newest === undefined) {
      // The metric is no longer configured.
      state.drop(work.metric, work.tenantCluster, windowsOf(work.runs));
      this.#failing.delete(key);
      return;
    }
    const first = await this.#settle(measure, work, newest, turn);
    if (first === 'unasked') return;
    if (first === 'failed') {
      this.failed(work.metric, work.tenantCluster);
      return;
    }
    this.#failing.delete(key);
    this.#waits.delete(key);
    for (const window of windows) {
      if (isOver()) return;
      const outcome = await this.#settle(measure, work, window, turn);
      if (outcome === 'failed') this.#wait(key);
      if (outcome !== 'settled') return;
    }
  }

  /** Records what a window comes to today. */
  async #settle(
    measure: Measure,
    { tenantCluster }: UnansweredWindows,
    window: Window,
    turn: Turn,
  ): Promise<'settled' | 'failed' | 'unasked'> {
    const { state } = this.#options;
    const subject = turn.subjects(window).get(tenantCluster);
    if (subject === undefined) {
      // Excluded from then on, or no longer known: there is nobody to bill.
      state.drop(measure.metric, tenantCluster, [window]);
      return 'settled';
    }
    const job = { measure, subject, window };
    const plan = measure.plan(subject, window);
    let outcome: JobOutcome = { kind: 'nothing' };
    if (plan.kind === 'unclear') outcome = { kind: 'failed', cause: 'query', reason: plan.reason };
    else if (plan.kind === 'ask') outcome = await turn.round.ask(job, plan);
    if (turn.signal.aborted) return 'unasked';
    if (outcome.kind === 'failed' && outcome.cause === 'unasked') return 'unasked';
    state.record(job, outcome);
    return outcome.kind === 'failed' ? 'failed' : 'settled';
  }
}

function keyOf(metric: string, tenantCluster: string): string {
  return `${metric}/${tenantCluster}`;
}
