import { Registry } from 'prom-client';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { linkAbort, pause, untilAborted } from '../telemetry/abort.ts';
import { createWorkQueueMetrics, type WorkQueueMetrics } from './metrics.ts';

/** How the work on a key ended. */
export type WorkOutcome =
  | { readonly kind: 'done' }
  /** Done for now; process the key again after this time. */
  | { readonly kind: 'again'; readonly afterMs: number }
  /** Retry with a delay that grows with each failure. `reason` is one line without secrets. */
  | { readonly kind: 'failed'; readonly reason: string };

export interface WorkQueueOptions {
  /** For metrics and logs. */
  readonly name: string;
  /** An exception counts as `failed`. */
  readonly process: (key: string, signal: AbortSignal) => Promise<WorkOutcome>;
  readonly concurrency?: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics?: WorkQueueMetrics;
  /** Delay after the first failure of a key, milliseconds; doubles with each further one. */
  readonly retryBaseMs?: number;
  readonly retryCapMs?: number;
}

interface Timer {
  readonly dueAt: number;
  readonly cancel: () => void;
}

/**
 * Processes keys like client-go's work queues. A key waits at most once, however often it is added,
 * and runs once at a time. A key that is added while it runs is processed again.
 */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #recorder: ReturnType<WorkQueueMetrics>;
  readonly #stopping = new AbortController();
  /** Waiting keys in order, with the time at which they were added. */
  readonly #waiting = new Map<string, number>();
  /** Running keys, with the time at which they started. */
  readonly #running = new Map<string, number>();
  readonly #addedMeanwhile = new Set<string>();
  /** Consecutive failures by key. */
  readonly #failures = new Map<string, number>();
  readonly #timers = new Map<string, Timer>();
  readonly #work = new Set<Promise<void>>();
  #started = false;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
    const running = (): readonly number[] =>
      [...this.#running.values()].map((time) => this.#secondsSince(time));
    const { name, metrics = createWorkQueueMetrics(new Registry()) } = options;
    this.#recorder = metrics(name, running);
  }

  /** Number of keys that are ready to run. */
  get depth(): number {
    return this.#waiting.size;
  }

  add(key: string): void {
    if (this.#stopping.signal.aborted) return;
    if (this.#running.has(key)) {
      if (!this.#addedMeanwhile.has(key)) this.#recorder.added();
      this.#addedMeanwhile.add(key);
      return;
    }
    if (this.#waiting.has(key)) return;
    this.#recorder.added();
    this.#enqueue(key);
  }

  /** Adds the key after a delay; of several delays for one key the shortest applies. */
  addAfter(key: string, ms: number): void {
    if (this.#stopping.signal.aborted) return;
    if (ms <= 0) {
      this.add(key);
      return;
    }
    const { clock } = this.#options;
    const dueAt = clock.monotonic() + ms;
    const before = this.#timers.get(key);
    if (before !== undefined && before.dueAt <= dueAt) return;
    before?.cancel();
    const link = linkAbort(this.#stopping.signal);
    const timer: Timer = { dueAt, cancel: link.abort };
    this.#timers.set(key, timer);
    void pause(clock, ms, link.signal).then((waited) => {
      link.release();
      if (this.#timers.get(key) === timer) this.#timers.delete(key);
      if (waited) this.add(key);
    });
  }

  /** Processes keys until the signal is aborted; awaits the running ones. Ignores later adds. */
  async run(signal: AbortSignal): Promise<void> {
    this.#started = true;
    this.#startWaiting();
    await untilAborted(signal);
    this.#stopping.abort();
    this.#waiting.clear();
    this.#recorder.depth(0);
    await Promise.all(this.#work);
  }

  #enqueue(key: string): void {
    this.#waiting.set(key, this.#options.clock.monotonic());
    this.#recorder.depth(this.#waiting.size);
    this.#startWaiting();
  }

  #startWaiting(): void {
    if (!this.#started || this.#stopping.signal.aborted) return;
    const { concurrency = 1 } = this.#options;
    for (const [key, addedAt] of this.#waiting) {
      if (this.#running.size >= concurrency) return;
      this.#waiting.delete(key);
      this.#recorder.depth(this.#waiting.size);
      this.#recorder.waited(this.#secondsSince(addedAt));
      const working = this.#workOn(key);
      this.#work.add(working);
      void working.then(() => this.#work.delete(working));
    }
  }

  async #workOn(key: string): Promise<void> {
    const startedAt = this.#options.clock.monotonic();
    this.#running.set(key, startedAt);
    const outcome = await this.#attempt(key);
    this.#running.delete(key);
    this.#recorder.worked(this.#secondsSince(startedAt));
    this.#conclude(key, outcome);
    if (this.#addedMeanwhile.delete(key) && !this.#stopping.signal.aborted) this.#enqueue(key);
    this.#startWaiting();
  }

  async #attempt(key: string): Promise<WorkOutcome> {
    const { name, process, logger } = this.#options;
    try {
      return await process(key, this.#stopping.signal);
    } catch (error) {
      logger.error(`[controller] ${name}: processing threw: "${key}"`, { error });
      return { kind: 'failed', reason: error instanceof Error ? error.name : 'exception' };
    }
  }

  #conclude(key: string, outcome: WorkOutcome): void {
    if (outcome.kind !== 'failed') {
      this.#failures.delete(key);
      if (outcome.kind === 'again') this.addAfter(key, outcome.afterMs);
      return;
    }
    if (this.#stopping.signal.aborted) return;
    const { name, logger, retryBaseMs = 500, retryCapMs = 300_000 } = this.#options;
    const count = this.#failures.get(key) ?? 0;
    this.#failures.set(key, count + 1);
    const delay = Math.min(retryCapMs, retryBaseMs * 2 ** count);
    this.#recorder.retried();
    const level = count === 0 ? 'warn' : 'debug';
    logger[level](`[controller] ${name}: ${outcome.reason}: "${key}"; retrying in ${delay} ms`);
    this.addAfter(key, delay);
  }

  #secondsSince(time: number): number {
    return (this.#options.clock.monotonic() - time) / 1000;
  }
}
