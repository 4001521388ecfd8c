import pLimit from 'p-limit';
import {
  type Asker,
  type QueryFailure,
  type Batch,
  CONNECTIONS,
  type Job,
  type JobOutcome,
  type Question,
} from './query.ts';
import type { BatchSizes } from './batch-sizes.ts';

export type Answered = readonly [job: Job, outcome: JobOutcome];

/** So many queries in a row without an answer mean that the server has fallen silent. */
const SILENT_AFTER = 8;

/** How many batches of one round are asked in parts after they failed. */
const MOST_SPLITS = 64;

const NO_TIME: QueryFailure = { kind: 'failed', cause: 'unasked', reason: 'no time left' };

/**
 * One round of questions. Once the server has fallen silent no more are asked, and none that is under
 * way is waited for: thousands of them would each wait for a time-out.
 *
 * What can be asked of many tenant clusters at once is. A query about many that fails is asked again in
 * halves, down to the one that fails by itself, so that no tenant cluster's trouble is another's.
 */
export class Pass {
  readonly #asker: Pick<Asker, 'ask' | 'queryShared'>;
  readonly #sizes: BatchSizes;
  readonly #signal: AbortSignal;
  /** Whether a further query may begin; always by default. */
  readonly #mayQuery: (() => boolean) | undefined;
  readonly #hopeless = new AbortController();
  readonly #either: AbortSignal;
  readonly #limit = pLimit(CONNECTIONS);
  #inARow = 0;
  #splitsLeft = MOST_SPLITS;
  #silent: string | undefined;

  constructor(
    asker: Pick<Asker, 'ask' | 'queryShared'>,
    sizes: BatchSizes,
    signal: AbortSignal,
    mayQuery?: () => boolean,
  ) {
    this.#asker = asker;
    this.#sizes = sizes;
    this.#signal = signal;
    this.#mayQuery = mayQuery;
    this.#either = AbortSignal.any([signal, this.#hopeless.signal]);
  }

  /** Why nothing more is asked; undefined while there is hope. */
  get silent(): string | undefined {
    return this.#silent;
  }

  /** Asks one query about one tenant cluster by itself. */
  ask(...[job, plan]: Question): Promise<JobOutcome> {
    return this.#guarded((signal) => this.#asker.ask(job, plan, signal));
  }

  /** Asks everything, together what can be; an outcome for each, in no particular order. */
  async queryAll(questions: readonly Question[]): Promise<Answered[]> {
    const sizes = this.#sizes;
    const { batches, alone } = arranged(questions);
    const requested = await Promise.all([
      ...batches.map((batch) => this.#queryAtSize(batch)),
      ...alone.map((same) => this.#queryAlone(same)),
    ]);
    for (const shared of new Set(batches.map((batch) => batch.shared))) sizes.settle(shared);
    return requested.flat();
  }

  async #queryAtSize(batch: Batch): Promise<Answered[]> {
    const size = this.#sizes.of(batch.shared);
    const parts = Math.max(1, Math.ceil(batch.questions.length / size));
    return (await Promise.all(cut(batch, parts).map((part) => this.#queryBatch(part)))).flat();
  }

  async #queryBatch(batch: Batch): Promise<Answered[]> {
    const asker = this.#asker;
    const sizes = this.#sizes;
    const { questions, shared } = batch;
    const [first] = questions;
    if (first === undefined) return [];
    const isOne = questions.length === 1;
    if (isOne && first[1].onlyShared !== true) return this.#queryAlone([first]);
    const outcome = await this.#limit(() =>
      this.#guarded((signal) => asker.queryShared(batch, signal)),
    );
    if (outcome.kind === 'answered') {
      sizes.worked(shared, questions.length);
      return questions.map(([job], index) => [job, outcome.outcomes[index] ?? NO_TIME]);
    }
    const isOver = outcome.cause === 'unasked' || this.#signal.aborted;
    if (isOne || isOver) return all(questions, outcome);
    if (outcome.cause === 'query') return this.#split(batch, outcome);
    // Nobody answers, or not so large a question: one about a single tenant cluster tells.
    const tried = await this.#queryBatch({ ...batch, questions: [first] });
    const isDown = tried.some(([, one]) => one.kind === 'failed' && one.cause !== 'query');
    if (isDown) return all(questions, outcome);
    const others = { ...batch, questions: questions.slice(1) };
    return [...tried, ...(await this.#split(others, outcome))];
  }

  async #split(batch: Batch, failure: QueryFailure): Promise<Answered[]> {
    this.#sizes.failed(batch.shared, batch.questions.length);
    if (this.#splitsLeft <= 0) return all(batch.questions, failure);
    this.#splitsLeft -= 1;
    return (await Promise.all(cut(batch, 2).map((half) => this.#queryBatch(half)))).flat();
  }

  /** Questions that are the same to the letter are asked once. */
  async #queryAlone(same: readonly Question[]): Promise<Answered[]> {
    const [first] = same;
    if (first === undefined) return [];
    return all(same, await this.#limit(() => this.ask(...first)));
  }

  async #guarded<T extends { readonly kind: string }>(
    ask: (signal: AbortSignal) => Promise<T | QueryFailure>,
  ): Promise<T | QueryFailure> {
    if (this.#silent !== undefined) return unasked(this.#silent);
    if (this.#mayQuery?.() === false) return NO_TIME;
    const outcome = await ask(this.#either);
    if (!isFailure(outcome) || outcome.cause === 'query') {
      this.#inARow = 0;
      return outcome;
    }
    if (this.#silent !== undefined) return unasked(this.#silent);
    this.#inARow += 1;
    if (this.#inARow >= SILENT_AFTER) {
      this.#silent = outcome.reason;
      this.#hopeless.abort();
    }
    return outcome;
  }
}

function isFailure(outcome: { readonly kind: string }): outcome is QueryFailure {
  return outcome.kind === 'failed';
}

function unasked(reason: string): QueryFailure {
  return { kind: 'failed', cause: 'unasked', reason };
}

function all(questions: readonly Question[], outcome: JobOutcome): Answered[] {
  return questions.map(([job]) => [job, outcome]);
}

/** What is asked together, and groups of the same question of those that are asked alone. */
function arranged(questions: readonly Question[]): {
  readonly batches: readonly Batch[];
  readonly alone: readonly (readonly Question[])[];
} {
  const batches = new Map<string, Batch & { readonly questions: Question[] }>();
  const alone = new Map<string, Question[]>();
  for (const question of questions) {
    const [{ measure, window }, { shared, promql, beside = '' }] = question;
    if (shared === undefined) {
      const key = JSON.stringify([measure.metric, window.end, promql, beside]);
      const same = alone.get(key);
      if (same === undefined) alone.set(key, [question]);
      else same.push(question);
      continue;
    }
    const key = `${measure.metric} ${window.start} ${window.end}`;
    const batch = batches.get(key);
    if (batch === undefined) batches.set(key, { shared, measure, window, questions: [question] });
    else batch.questions.push(question);
  }
  return { batches: [...batches.values()], alone: [...alone.values()] };
}

/** As many parts of about the same size. */
function cut(batch: Batch, parts: number): readonly Batch[] {
  const { questions } = batch;
  const size = Math.ceil(questions.length / parts);
  return Array.from({ length: Math.ceil(questions.length / size) }, (_, index) => ({
    ...batch,
    questions: questions.slice(index * size, (index + 1) * size),
  }));
}
