import { Worker } from 'node:worker_threads';
import { Counter, type Registry } from 'prom-client';
import { pause } from '../../telemetry/abort.ts';
import { Backoff } from '../../model/backoff.ts';
import { greatest, least } from '../../model/extremes.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ForeignAnswer, ForeignBytes } from './foreign-answer.ts';
import type { ReadForeign } from './read-in-worker.ts';
import type { WorkerAnswer } from './worker.ts';

export interface ReaderLimits {
  /** Heap of the thread, MiB. An answer of 2 MiB with at most 200,000 values needs about 30. */
  readonly heapMiB: number;
  /** Time for one answer, milliseconds. */
  readonly answerMs: number;
  /** Processor time for one tenant cluster's answers in a minute, milliseconds. */
  readonly cpuMs: number;
  readonly waitingBytes: number;
}

const DEFAULT_LIMITS: ReaderLimits = {
  heapMiB: 64,
  answerMs: 30_000,
  cpuMs: 10_000,
  waitingBytes: 64 * 1024 * 1024,
};

const MINUTE_MS = 60_000;
/** Answers of one tenant cluster may end the thread this many times in an hour. */
const DEATHS = 2;
const HOUR_MS = 3_600_000;
/** Timers are not more exact, and few objects take less. */
const LEAST_REST_MS = 2;
const MOST_REST_MS = 100;
const RESTART = { baseMs: 200, capMs: 10_000 } as const;

interface ReadJob {
  readonly owner: string;
  readonly given: ForeignBytes;
  readonly answer: (answer: ForeignAnswer) => void;
}

/** One tenant cluster's use of the thread. Times are monotonic. */
interface Account {
  since: number;
  cpuMs: number;
  deaths: number[];
}

/** One thread that parses the answers of all tenant APIs. */
export class ForeignReader {
  readonly #options;
  readonly #limits: ReaderLimits;
  readonly #backoff: Backoff;
  readonly #closing = new AbortController();
  readonly #accounts = new Map<string, Account>();
  #waiting: ReadJob[] = [];
  #worker: Worker | undefined;
  /** The one job in the thread. With one job at a time, the end of the thread has one cause. */
  #inHand: ReadJob | undefined;
  #watchdog: NodeJS.Timeout | undefined;
  #isPausing = false;

  constructor(options: {
    readonly clock: Clock;
    /** Uniform in [0, 1). */
    readonly random: () => number;
    readonly logger: Logger;
    /** Called when the thread ends during its work. */
    readonly onDeath?: () => void;
    readonly limits?: Partial<ReaderLimits>;
  }) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#backoff = new Backoff({ ...RESTART, random: options.random });
  }

  /**
   * Returns the reader for one tenant cluster. Its answers wait for each other, and only briefly
   * for those of others.
   */
  of(owner: string): ReadForeign {
    return (given, signal) =>
      new Promise((resolve) => {
        const answer = (stated: ForeignAnswer): void => {
          signal.removeEventListener('abort', abort);
          resolve(stated);
        };
        const job: ReadJob = { owner, given, answer };
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

  /** Forgets a tenant cluster. */
  forget(owner: string): void {
    this.#accounts.delete(owner);
  }

  /** Ends the thread. Waiting answers fail. */
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

  /** Fails the last answer of the tenant cluster with the most waiting bytes. */
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
    last.answer({
      kind: 'failed',
      reason: 'too many bytes wait to be read, most of them from this API',
    });
  }

  /** Gives the thread an answer of the tenant cluster that has used it least. */
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
    // No environment, because it holds secrets. Options of the thread's own would end
    // `--permission` in it.
    const worker = new Worker(WORKER, {
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: heapMiB, maxYoungGenerationSizeMb: 8 },
    });
    worker.unref();
    worker.on('message', (reported: WorkerAnswer) => this.#answered(worker, reported));
    // The message of an error may quote the answer.
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
    // By then the caller has applied the answer.
    setImmediate(() => void this.#pauseFor(this.#options.clock.monotonic() - began));
  }

  /** Leaves half of the main thread to all other work, whatever amount the tenant clusters send. */
  async #pauseFor(tookMs: number): Promise<void> {
    const { clock } = this.#options;
    const restMs = Math.min(tookMs, MOST_REST_MS);
    if (restMs >= LEAST_REST_MS) await pause(clock, restMs, this.#closing.signal);
    this.#isPausing = false;
    this.#next();
  }

  /** Continues with a new thread. Only the tenant cluster of the failed answer is blamed. */
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

/** The bundle has its own name for it (scripts/bundle.ts). */
const WORKER = new URL(
  import.meta.url.endsWith('.ts') ? './worker.ts' : './tenant-reader.js',
  import.meta.url,
);

/** Counts the ends of the thread that reads tenant APIs. One of their answers caused each. */
export function countReaderDeaths(registry: Registry): () => void {
  const deaths = new Counter({
    name: 'meterfeed_tenant_reader_deaths_total',
    help: 'Ends of the thread that reads tenant APIs: out of memory, too slow, or a defect',
    registers: [registry],
  });
  return () => deaths.inc();
}
