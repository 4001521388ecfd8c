import pLimit from 'p-limit';
import {
  type QueryRunner,
  type QueryFailure,
  type Batch,
  CONNECTIONS,
  type QueryJob,
  type JobOutcome,
  type Question,
} from './query.ts';
import type { BatchSizes } from './batch-sizes.ts';

export type Answered = readonly [job: QueryJob, outcome: JobOutcome];

/** After this many queries in a row without an answer, the server counts as silent. */
const SILENT_AFTER = 8;

/** Most failed batches that one pass splits. */
const MOST_SPLITS = 64;

const NO_TIME: QueryFailure = { kind: 'failed', cause: 'unsent', reason: 'no time left' };

/**
 * One pass of queries. Once the server is silent, it sends no more and cancels running queries:
 * thousands of them would each wait for a timeout.
 *
 * It combines queries about many tenant clusters where possible. It splits a failed combined query
 * in halves, down to the failing tenant cluster, so that others are not affected.
 */
export class Pass {
  readonly #runner: Pick<QueryRunner, 'queryOne' | 'queryShared'>;
  readonly #sizes: BatchSizes;
  readonly #signal: AbortSignal;
  /** Whether another query may begin; undefined means always. */
  readonly #mayQuery: (() => boolean) | undefined;
  readonly #hopeless = new AbortController();
  readonly #either: AbortSignal;
  readonly #limit = pLimit(CONNECTIONS);
  #inARow = 0;
  #splitsLeft = MOST_SPLITS;
  #silent: string | undefined;

  constructor(
    runner: Pick<QueryRunner, 'queryOne' | 'queryShared'>,
    sizes: BatchSizes,
    signal: AbortSignal,
    mayQuery?: () => boolean,
  ) {
    this.#runner = runner;
    this.#sizes = sizes;
    this.#signal = signal;
    this.#mayQuery = mayQuery;
    this.#either = AbortSignal.any([signal, this.#hopeless.signal]);
  }

  /** Why no more queries are sent; undefined while the server answers. */
  get silent(): string | undefined {
    return this.#silent;
  }

  /** Sends the query about one tenant cluster. */
  queryOne(...[job, plan]: Question): Promise<JobOutcome> {
    return this.#guarded((signal) => this.#runner.queryOne(job, plan, signal));
  }

  /** Sends all queries, combined where possible. Returns one outcome for each, in any order. */
  async queryAll(questions: readonly Question[]): Promise<Answered[]> {
    const sizes = this.#sizes;
    const { batches, alone } = arranged(questions);
    const answers = await Promise.all([
      ...batches.map((batch) => this.#queryAtSize(batch)),
      ...alone.map((same) => this.#queryAlone(same)),
    ]);
    for (const shared of new Set(batches.map((batch) => batch.shared))) sizes.settle(shared);
    return answers.flat();
  }

  async #queryAtSize(batch: Batch): Promise<Answered[]> {
    const size = this.#sizes.of(batch.shared);
    const parts = Math.max(1, Math.ceil(batch.questions.length / size));
    return (await Promise.all(cut(batch, parts).map((part) => this.#queryBatch(part)))).flat();
  }

  async #queryBatch(batch: Batch): Promise<Answered[]> {
    const runner = this.#runner;
    const sizes = this.#sizes;
    const { questions, shared } = batch;
    const [first] = questions;
    if (first === undefined) return [];
    const isOne = questions.length === 1;
    if (isOne && first[1].onlyShared !== true) return this.#queryAlone([first]);
    const outcome = await this.#limit(() =>
      this.#guarded((signal) => runner.queryShared(batch, signal)),
    );
    if (outcome.kind === 'answered') {
      sizes.worked(shared, questions.length);
      return questions.map(([job], index) => [job, outcome.outcomes[index] ?? NO_TIME]);
    }
    const isOver = outcome.cause === 'unsent' || this.#signal.aborted;
    if (isOne || isOver || shared.promql === undefined) return all(questions, outcome);
    if (outcome.cause === 'query') return this.#split(batch, outcome);
    // Either the server is down or the query is too large: one about a single tenant cluster
    // decides.
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

  /** Sends identical queries once. */
  async #queryAlone(same: readonly Question[]): Promise<Answered[]> {
    const [first] = same;
    if (first === undefined) return [];
    return all(same, await this.#limit(() => this.queryOne(...first)));
  }

  async #guarded<T extends { readonly kind: string }>(
    send: (signal: AbortSignal) => Promise<T | QueryFailure>,
  ): Promise<T | QueryFailure> {
    if (this.#silent !== undefined) return unsent(this.#silent);
    if (this.#mayQuery?.() === false) return NO_TIME;
    const outcome = await send(this.#either);
    if (!isFailure(outcome) || outcome.cause === 'query') {
      this.#inARow = 0;
      return outcome;
    }
    if (this.#silent !== undefined) return unsent(this.#silent);
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

function unsent(reason: string): QueryFailure {
  return { kind: 'failed', cause: 'unsent', reason };
}

function all(questions: readonly Question[], outcome: JobOutcome): Answered[] {
  return questions.map(([job]) => [job, outcome]);
}

/** Groups the questions: batches to combine, and lists of identical queries. */
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

/** Cuts a batch into so many batches of about the same size. */
function cut(batch: Batch, parts: number): readonly Batch[] {
  const { questions } = batch;
  const size = Math.ceil(questions.length / parts);
  return Array.from({ length: Math.ceil(questions.length / size) }, (_, index) => ({
    ...batch,
    questions: questions.slice(index * size, (index + 1) * size),
  }));
}
