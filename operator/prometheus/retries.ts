import pLimit from 'p-limit';
import type { Clock } from '../telemetry/clock.ts';
import type { Window } from '../model/window.ts';
import { type Asker, CONNECTIONS, createRound, type JobOutcome, type Round } from './ask.ts';
import type { Books, MeteringEnd } from './books.ts';
import type { Measure, MeasuredCluster } from './measure.ts';
import type { PendingWork } from './pending.ts';
import { subjectsOf, type TenantClusterHistory } from './subjects.ts';
import { windowsOf } from './window-runs.ts';

/**
 * Asks again what failed: first about the newest window, then, while that is answered, about the others
 * from the oldest on. A metric of a tenant cluster whose newest window fails is failing: opening a
 * window does not wait for it.
 */
export interface Retries {
  /** Works for a few seconds at most, so that windows are opened in time. */
  run(signal: AbortSignal): Promise<MeteringEnd | undefined>;
  /** Why a metric of a tenant cluster is failing; undefined when it is not. */
  isFailing(metric: string, tenantCluster: string): string | undefined;
  /** It was asked about its newest window and failed. */
  failed(metric: string, tenantCluster: string): void;
}

export interface RetriesOptions {
  readonly books: Books;
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

export function createRetries(options: RetriesOptions): Retries {
  const { books, asker, clock, random, tenantClusters } = options;
  const waits = new Map<string, Wait>();
  const failing = new Set<string>();

  const wait = (key: string): void => {
    const ms = Math.min((waits.get(key)?.ms ?? FIRST_WAIT_MS / 2) * 2, LONGEST_WAIT_MS);
    waits.set(key, { until: clock.monotonic() + ms * (0.5 + random() / 2), ms });
  };

  /** What a window comes to today, entered in the books. */
  const settle = async (
    measure: Measure,
    { tenantCluster }: PendingWork,
    window: Window,
    turn: Turn,
  ): Promise<'settled' | 'failed' | 'unasked'> => {
    const subject = turn.subjects(window).get(tenantCluster);
    if (subject === undefined) {
      // Excluded from then on, or no longer known: there is nobody to bill.
      books.drop(measure.metric, tenantCluster, [window]);
      return 'settled';
    }
    const job = { measure, subject, window };
    const plan = measure.plan(subject, window);
    let outcome: JobOutcome = { kind: 'nothing' };
    if (plan.kind === 'unclear') outcome = { kind: 'failed', cause: 'query', reason: plan.reason };
    else if (plan.kind === 'ask') outcome = await turn.round.ask(job, plan);
    if (turn.signal.aborted) return 'unasked';
    if (outcome.kind === 'failed' && outcome.cause === 'unasked') return 'unasked';
    books.enter(job, outcome);
    return outcome.kind === 'failed' ? 'failed' : 'settled';
  };

  const goThrough = async (work: PendingWork, turn: Turn): Promise<void> => {
    const isOver = (): boolean => turn.signal.aborted || clock.monotonic() >= turn.deadline;
    if (isOver()) return;
    const key = keyOf(work.metric, work.tenantCluster);
    const measure = options.measures().find(({ metric }) => metric === work.metric);
    const windows = windowsOf(work.runs);
    const newest = windows.pop();
    if (measure === undefined || newest === undefined) {
      // The metric is no longer configured.
      books.drop(work.metric, work.tenantCluster, windowsOf(work.runs));
      failing.delete(key);
      return;
    }
    const first = await settle(measure, work, newest, turn);
    if (first === 'unasked') return;
    if (first === 'failed') {
      failing.add(key);
      wait(key);
      return;
    }
    failing.delete(key);
    waits.delete(key);
    for (const window of windows) {
      if (isOver()) return;
      const outcome = await settle(measure, work, window, turn);
      if (outcome === 'failed') wait(key);
      if (outcome !== 'settled') return;
    }
  };

  return {
    run: async (signal) => {
      const now = clock.monotonic();
      const due = books.pending
        .list()
        .filter((work) => (waits.get(keyOf(work.metric, work.tenantCluster))?.until ?? 0) <= now);
      if (due.length === 0) return undefined;
      const known = new Map<number, ReadonlyMap<string, MeasuredCluster>>();
      const turn: Turn = {
        deadline: now + BUDGET_MS,
        round: createRound(asker, signal),
        signal,
        subjects: (window) => {
          const subjects = known.get(window.end) ?? subjectsOf(tenantClusters, window);
          known.set(window.end, subjects);
          return subjects;
        },
      };
      await pLimit(CONNECTIONS).map(due, (work) => goThrough(work, turn));
      // What was answered is asked once more after a stop: nothing of it is written by half.
      if (signal.aborted) return { kind: 'aborted' };
      return books.commit(signal);
    },
    isFailing: (metric, tenantCluster) =>
      failing.has(keyOf(metric, tenantCluster))
        ? books.pending.find(metric, tenantCluster)?.reason
        : undefined,
    failed: (metric, tenantCluster) => {
      const key = keyOf(metric, tenantCluster);
      failing.add(key);
      wait(key);
    },
  };
}

function keyOf(metric: string, tenantCluster: string): string {
  return `${metric}/${tenantCluster}`;
}
