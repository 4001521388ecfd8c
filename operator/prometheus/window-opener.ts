import pLimit from 'p-limit';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Window } from '../model/window.ts';
import { type Asker, CONNECTIONS, createRound, type Job, type JobOutcome } from './ask.ts';
import type { Books, MeteringEnd } from './books.ts';
import type { Measure, Plan } from './measure.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import type { Retries } from './retries.ts';
import { subjectsOf, type TenantClusterHistory } from './subjects.ts';

/** Opens windows in order: asks everything about one once, and records what came and what did not. */
export interface WindowOpener {
  openNext(signal: AbortSignal): Promise<Opened>;
  /** Why nothing at all is answered; undefined while something is. */
  readonly silent: string | undefined;
}

export type Opened =
  | { readonly kind: 'opened' }
  /** Nothing is due, or the server is silent. */
  | { readonly kind: 'none' }
  | { readonly kind: 'ended'; readonly end: MeteringEnd };

export interface WindowOpenerOptions {
  readonly books: Books;
  readonly asker: Asker;
  readonly retries: Pick<Retries, 'isFailing' | 'failed'>;
  readonly measures: () => readonly Measure[];
  readonly tenantClusters: TenantClusterHistory;
  readonly lastWindow: () => Window | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: PrometheusMetrics;
}

const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 60_000;

type Question = readonly [job: Job, plan: Extract<Plan, { kind: 'ask' }>];

export function createWindowOpener(options: WindowOpenerOptions): WindowOpener {
  const { books, asker, retries, clock, logger, metrics } = options;
  let silent: string | undefined;
  let pauseMs = FIRST_PAUSE_MS;
  let pausedUntil = -Infinity;

  /** What to ask; what is known without asking is in `known`. */
  const prepare = (window: Window): { questions: Question[]; known: [Job, JobOutcome][] } => {
    const questions: Question[] = [];
    const known: [Job, JobOutcome][] = [];
    let nameless = 0;
    for (const subject of subjectsOf(options.tenantClusters, window).values()) {
      for (const measure of options.measures()) {
        const job = { measure, subject, window };
        const plan = measure.plan(subject, window);
        if (plan.kind === 'nameless') nameless += 1;
        if (plan.kind === 'unclear') {
          known.push([job, { kind: 'failed', cause: 'query', reason: plan.reason }]);
        }
        if (plan.kind !== 'ask') continue;
        const failing = retries.isFailing(measure.metric, subject.cluster.id);
        if (failing === undefined) questions.push([job, plan]);
        else known.push([job, { kind: 'failed', cause: 'unasked', reason: failing }]);
      }
    }
    metrics.nameless.set(nameless);
    return { questions, known };
  };

  /** A server that was silent is tried with one question, any one, before it is asked the others. */
  const askAll = async (
    questions: readonly Question[],
    signal: AbortSignal,
  ): Promise<[Job, JobOutcome][]> => {
    const round = createRound(asker, signal);
    const answers: [Job, JobOutcome][] = [];
    const tried = silent === undefined ? -1 : Math.floor(options.random() * questions.length);
    const trial = questions[tried];
    if (trial !== undefined) {
      const outcome = await round.ask(...trial);
      answers.push([trial[0], outcome]);
      if (outcome.kind === 'failed' && outcome.cause === 'server') return answers;
    }
    const others = questions.filter((_, index) => index !== tried);
    await pLimit(CONNECTIONS).map(others, async ([job, plan]) => {
      answers.push([job, await round.ask(job, plan)]);
    });
    return answers;
  };

  const fallSilent = (reason: string): void => {
    if (silent === undefined) logger.warn(`[metrics] prometheus: does not answer: ${reason}`);
    silent = reason;
    metrics.unreachable.set(1);
    pausedUntil = clock.monotonic() + pauseMs * (0.5 + options.random() / 2);
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  };

  const speakAgain = (): void => {
    if (silent !== undefined) logger.info('[metrics] prometheus: answers again');
    silent = undefined;
    metrics.unreachable.set(0);
    pauseMs = FIRST_PAUSE_MS;
  };

  return {
    get silent() {
      return silent;
    },
    openNext: async (signal) => {
      const window = books.next();
      const closed = options.lastWindow()?.end ?? -Infinity;
      if (closed < window.end || books.dueAt(window) > clock.now()) return { kind: 'none' };
      if (clock.monotonic() < pausedUntil) return { kind: 'none' };
      const { questions, known } = prepare(window);
      const answers = await askAll(questions, signal);
      if (signal.aborted) return { kind: 'ended', end: { kind: 'aborted' } };
      const reason = silenceOf(answers);
      if (reason !== undefined) {
        fallSilent(reason);
        return { kind: 'none' };
      }
      if (questions.length > 0) speakAgain();
      for (const [job, outcome] of [...known, ...answers]) {
        books.enter(job, outcome);
        if (outcome.kind === 'failed' && outcome.cause !== 'unasked') {
          retries.failed(job.measure.metric, job.subject.cluster.id);
        }
      }
      books.advance(window);
      const end = await books.commit(signal);
      return end === undefined ? { kind: 'opened' } : { kind: 'ended', end };
    },
  };
}

/** Why nothing was answered at all; undefined when something was, or nothing was asked. */
function silenceOf(answers: readonly (readonly [Job, JobOutcome])[]): string | undefined {
  const reasons = answers.map(([, outcome]) =>
    outcome.kind === 'failed' && outcome.cause !== 'query' ? outcome.reason : undefined,
  );
  return reasons.every((reason) => reason !== undefined) ? reasons[0] : undefined;
}
