import pLimit from 'p-limit';
import type { Window } from '../model/window.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { AppendEnd } from '../windows/appender.ts';
import { type Asker, CONNECTIONS, createRound, type Job, type JobOutcome } from './ask.ts';
import type { Measure, Plan } from './measure.ts';
import type { PrometheusMetrics } from './prometheus-metrics.ts';
import type { Retries } from './retries.ts';
import { subjectsOf, type TenantClusterHistory } from './subjects.ts';
import type { WindowState } from './window-state.ts';

export type Opened =
  | { readonly kind: 'opened' }
  /** Nothing is due, or the server is silent. */
  | { readonly kind: 'none' }
  | { readonly kind: 'ended'; readonly end: AppendEnd };

export interface WindowOpenerOptions {
  readonly state: WindowState;
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
type Answered = readonly [job: Job, outcome: JobOutcome];

/** Opens windows in order: asks everything about one once, and records what came and what did not. */
export class WindowOpener {
  readonly #options: WindowOpenerOptions;
  #silent: string | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  /** Monotonic. */
  #pausedUntil = -Infinity;

  constructor(options: WindowOpenerOptions) {
    this.#options = options;
  }

  /** Why nothing at all is answered; undefined while something is. */
  get silent(): string | undefined {
    return this.#silent;
  }

  async openNext(signal: AbortSignal): Promise<Opened> {
    const { state, clock, retries } = this.#options;
    const window = state.next;
    const closed = this.#options.lastWindow()?.end ?? -Infinity;
    if (closed < window.end || state.dueAt(window) > clock.now()) return { kind: 'none' };
    if (clock.monotonic() < this.#pausedUntil) return { kind: 'none' };
    const { questions, known } = this.#prepare(window);
    const answers = await this.#askAll(questions, signal);
    if (signal.aborted) return { kind: 'ended', end: { kind: 'aborted' } };
    const reason = silenceOf(answers);
    if (reason !== undefined) {
      this.#fallSilent(reason);
      return { kind: 'none' };
    }
    if (questions.length > 0) this.#speakAgain();
    for (const [job, outcome] of [...known, ...answers]) {
      state.record(job, outcome);
      if (outcome.kind === 'failed' && outcome.cause !== 'unasked') {
        retries.failed(job.measure.metric, job.subject.cluster.id);
      }
    }
    state.advance(window);
    const end = await state.commit(signal);
    return end === undefined ? { kind: 'opened' } : { kind: 'ended', end };
  }

  /** What to ask; what is known without asking is in `known`. */
  #prepare(window: Window): { questions: Question[]; known: Answered[] } {
    const { retries, measures, metrics, tenantClusters } = this.#options;
    const questions: Question[] = [];
    const known: Answered[] = [];
    let nameless = 0;
    for (const subject of subjectsOf(tenantClusters, window).values()) {
      for (const measure of measures()) {
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
  }

  /** A server that was silent is tried with one question, any one, before it is asked the others. */
  async #askAll(questions: readonly Question[], signal: AbortSignal): Promise<Answered[]> {
    const { asker, random } = this.#options;
    const round = createRound(asker, signal);
    const answers: Answered[] = [];
    const tried = this.#silent === undefined ? -1 : Math.floor(random() * questions.length);
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

/** Why nothing was answered at all; undefined when something was, or nothing was asked. */
function silenceOf(answers: readonly Answered[]): string | undefined {
  const reasons = answers.map(([, outcome]) =>
    outcome.kind === 'failed' && outcome.cause !== 'query' ? outcome.reason : undefined,
  );
  return reasons.every((reason) => reason !== undefined) ? reasons[0] : undefined;
}
