import { Worker } from 'node:worker_threads';
import { Counter, type Registry } from 'prom-client';
import { pause } from '../../kubernetes/abort.ts';
import { type Backoff, createBackoff } from '../../model/backoff.ts';
import { greatest, least } from '../../model/extremes.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ForeignAnswer, ForeignBytes } from './foreign-answer.ts';
import type { ReadForeign } from './read-in-worker.ts';
import type { WorkerAnswer } from './worker.ts';

interface ForeignReaderOptions {
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  /** The thread has ended in the middle of something. */
  readonly onDeath?: () => void;
  readonly limits?: Partial<ReaderLimits>;
}

export interface ReaderLimits {
  /** Of the thread's heap. An answer of 2 MiB, of at most 200,000 values, takes up some 30. */
  readonly heapMiB: number;
  /** For one answer, milliseconds. */
  readonly answerMs: number;
  /** Processor time for one tenant cluster's answers in a minute, milliseconds. */
  readonly cpuMs: number;
  /** Of all answers that wait. */
  readonly waitingBytes: number;
}

const DEFAULT_LIMITS: ReaderLimits = {
  heapMiB: 64,
  answerMs: 30_000,
  cpuMs: 10_000,
  waitingBytes: 64 * 1024 * 1024,
};

const MINUTE_MS = 60_000;
/** So many times in an hour the thread may end over one tenant cluster's answers. */
const DEATHS = 2;
const HOUR_MS = 3_600_000;
/** A timer is no more exact than that, and few objects take less. */
const LEAST_REST_MS = 2;
const MOST_REST_MS = 100;
const RESTART = { baseMs: 200, capMs: 10_000 } as const;

interface Job {
  readonly owner: string;
  readonly given: ForeignBytes;
  readonly answer: (answer: ForeignAnswer) => void;
}

/** What one tenant cluster has taken of the thread. Times are monotonic. */
interface Account {
  since: number;
  cpuMs: number;
  deaths: number[];
}

/** One thread that reads the answers of all tenant clusters' API servers. */
export class ForeignReader {
  readonly #options: ForeignReaderOptions;
  readonly #limits: ReaderLimits;
  readonly #backoff: Backoff;
  readonly #closing = new AbortController();
  readonly #accounts = new Map<string, Account>();
  #waiting: Job[] = [];
  #worker: Worker | undefined;
  /** What the thread is reading: it is given one thing at a time, so that its end has one cause. */
  #inHand: Job | undefined;
  #watchdog: NodeJS.Timeout | undefined;
  #isPausing = false;

  constructor(options: ForeignReaderOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#backoff = createBackoff({ ...RESTART, random: options.random });
  }

  /** For one tenant cluster: its answers wait for one another, and not for long for those of others. */
  of(owner: string): ReadForeign {
    return (given, signal) =>
      new Promise((resolve) => {
        const answer = (stated: ForeignAnswer): void => {
          signal.removeEventListener('abort', abort);
          resolve(stated);
        };
        const job: Job = { owner, given, answer };
        const abort = (): void => {
          this.#waiting = this.#waiting.filter((each) => each !== job);
          answer(ABORTED);
        };
        if (signal.aborted || this.#closing.signal.aborted) {
          resolve(ABORTED);
          return;
        }
        signal.addEventListener('abort', abort, { once: true });
        this.#waiting.push(job);
        this.#makeRoom();
        this.#next();
      });
  }

  /** Nothing more is known of a tenant cluster. */
  forget(owner: string): void {
    this.#accounts.delete(owner);
  }

  /** What waits is answered as failed. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#watchdog);
    const left = [
      ...this.#waiting.splice(0),
      ...(this.#inHand === undefined ? [] : [this.#inHand]),
    ];
    this.#inHand = undefined;
    for (const { answer } of left) answer(ABORTED);
    await this.#worker?.terminate();
  }

  /** Whoever has most of what waits gives way. */
  #makeRoom(): void {
    const sums = new Map<string, number>();
    for (const { owner, given } of this.#waiting) {
      sums.set(owner, (sums.get(owner) ?? 0) + given.bytes.length);
    }
    const all = [...sums.values()];
    if (all.reduce((sum, bytes) => sum + bytes, 0) <= this.#limits.waitingBytes) return;
    const most = greatest(all);
    const last = this.#waiting.findLast(({ owner }) => sums.get(owner) === most);
    if (last === undefined) return;
    this.#waiting = this.#waiting.filter((job) => job !== last);
    last.answer({ kind: 'failed', reason: 'too much waits to be read, most of it from here' });
  }

  /** Gives the thread something of whoever has taken least of it. */
  #next(): void {
    if (this.#inHand !== undefined || this.#isPausing || this.#waiting.length === 0) return;
    const taken = this.#waiting.map(({ owner }) => this.#account(owner).cpuMs);
    const index = taken.indexOf(least(taken));
    const [job] = this.#waiting.splice(index, 1);
    if (job === undefined) return;
    this.#inHand = job;
    const worker = (this.#worker ??= this.#start());
    const { answerMs } = this.#limits;
    this.#watchdog = setTimeout(() => {
      this.#died(worker, `it took longer than ${answerMs / 1000} seconds`);
      void worker.terminate();
    }, answerMs);
    worker.postMessage(job.given, [job.given.bytes.buffer]);
  }

  #start(): Worker {
    const { heapMiB } = this.#limits;
    // Nothing of the environment, which holds secrets. Options of its own would end `--permission` in it.
    const worker = new Worker(WORKER, {
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: heapMiB, maxYoungGenerationSizeMb: 8 },
    });
    worker.unref();
    worker.on('message', (reported: WorkerAnswer) => this.#answered(worker, reported));
    // What is thrown may quote what was read.
    worker.on('error', (error) =>
      this.#died(worker, 'code' in error ? String(error.code) : error.name),
    );
    worker.on('exit', () => this.#died(worker, 'it ended'));
    return worker;
  }

  #answered(worker: Worker, { answer, cpuMs }: WorkerAnswer): void {
    const job = this.#inHand;
    if (worker !== this.#worker || job === undefined) return;
    clearTimeout(this.#watchdog);
    this.#inHand = undefined;
    this.#backoff.reset();
    const account = this.#account(job.owner);
    account.cpuMs += cpuMs;
    const most = this.#limits.cpuMs;
    this.#isPausing = true;
    const began = this.#options.clock.monotonic();
    job.answer(
      account.cpuMs > most
        ? { kind: 'refused', reason: `more than ${most / 1000} seconds of reading in a minute` }
        : answer,
    );
    // What is done with the answer at once is done by then.
    setImmediate(() => void this.#rest(this.#options.clock.monotonic() - began));
  }

  /** Half of this thread is left to everybody else, whatever all tenant clusters bring together. */
  async #rest(tookMs: number): Promise<void> {
    const { clock } = this.#options;
    const restMs = Math.min(tookMs, MOST_REST_MS);
    if (restMs >= LEAST_REST_MS) await pause(clock, restMs, this.#closing.signal);
    this.#isPausing = false;
    this.#next();
  }

  /** Everybody but the one whose answer it was goes on with the next thread. */
  #died(worker: Worker, why: string): void {
    if (worker !== this.#worker || this.#closing.signal.aborted) return;
    clearTimeout(this.#watchdog);
    this.#worker = undefined;
    const job = this.#inHand;
    this.#inHand = undefined;
    const { logger, onDeath } = this.#options;
    const whose =
      job === undefined ? '' : `, over ${job.given.plural} of tenant cluster ${job.owner}`;
    logger.warn(`[metrics] the thread that reads tenant APIs ended${whose}: ${why}`);
    onDeath?.();
    if (job !== undefined) job.answer(this.#blame(job.owner, why));
    void this.#pause();
  }

  #blame(owner: string, why: string): ForeignAnswer {
    const now = this.#options.clock.monotonic();
    const account = this.#account(owner);
    account.deaths = [...account.deaths.filter((at) => at > now - HOUR_MS), now];
    const reason = `its answer ended the thread that reads it: ${why}`;
    return { kind: account.deaths.length >= DEATHS ? 'refused' : 'failed', reason };
  }

  async #pause(): Promise<void> {
    this.#isPausing = true;
    await pause(this.#options.clock, this.#backoff.next(), this.#closing.signal);
    this.#isPausing = false;
    this.#next();
  }

  #account(owner: string): Account {
    const now = this.#options.clock.monotonic();
    const known = this.#accounts.get(owner);
    if (known === undefined) {
      const made: Account = { since: now, cpuMs: 0, deaths: [] };
      this.#accounts.set(owner, made);
      return made;
    }
    if (now - known.since >= MINUTE_MS) {
      known.since = now;
      known.cpuMs = 0;
    }
    return known;
  }
}

const ABORTED: ForeignAnswer = { kind: 'failed', reason: 'aborted' };

/** Beside the bundle it has a name of its own (scripts/bundle.ts). */
const WORKER = new URL(
  import.meta.url.endsWith('.ts') ? './worker.ts' : './tenant-reader.js',
  import.meta.url,
);

/** Counts the ends of the thread that reads tenant APIs, each of which had a cause in one of them. */
export function countReaderDeaths(registry: Registry): () => void {
  const deaths = new Counter({
    name: 'meterfeed_tenant_reader_deaths_total',
    help: 'Ends of the thread that reads tenant APIs: out of memory, too slow, or a defect',
    registers: [registry],
  });
  return () => deaths.inc();
}
