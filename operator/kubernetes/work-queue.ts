import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { linkAbort, pause } from './abort.ts';
import { silentQueueRecorder, type WorkQueueMetrics } from './metrics.ts';

/** How the work on a key ended. */
export type WorkOutcome =
  | { readonly kind: 'done' }
  /** Done for now; look again after this time. */
  | { readonly kind: 'again'; readonly afterMs: number }
  /** Try again, later each time it fails. `reason` is one line without secrets. */
  | { readonly kind: 'failed'; readonly reason: string };

/**
 * Work by key, as client-go's queues do it: a key waits at most once however often it is added, is
 * never worked on twice at the same time, and is worked on once more when it was added meanwhile.
 */
export interface WorkQueue {
  add(key: string): void;
  /** Adds the key after a delay; of several delays for one key the shortest counts. */
  addAfter(key: string, ms: number): void;
  /** Works until the signal is aborted, then waits for what is under way; adds after that are ignored. */
  run(signal: AbortSignal): Promise<void>;
  /** Keys that wait to be taken up now. */
  readonly depth: number;
}

export interface WorkQueueOptions {
  /** For metrics and logs. */
  readonly name: string;
  /** An exception counts as `failed`. */
  readonly process: (key: string, signal: AbortSignal) => Promise<WorkOutcome>;
  readonly concurrency?: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics?: WorkQueueMetrics;
  /** Delay after the first failure of a key; doubles with each further one. */
  readonly retryBaseMs?: number;
  readonly retryCapMs?: number;
}

interface Timer {
  readonly dueAt: number;
  readonly cancel: () => void;
}

export function createWorkQueue(options: WorkQueueOptions): WorkQueue {
  const { clock, logger, concurrency = 1, retryBaseMs = 500, retryCapMs = 300_000 } = options;
  const stopping = new AbortController();
  /** Keys in the order of their turn, with the time at which they were added. */
  const waiting = new Map<string, number>();
  /** Keys under way, with the time at which they were taken up. */
  const running = new Map<string, number>();
  const addedMeanwhile = new Set<string>();
  const failures = new Map<string, number>();
  const timers = new Map<string, Timer>();
  const work = new Set<Promise<void>>();
  let started = false;

  const secondsSince = (time: number): number => (clock.monotonic() - time) / 1000;
  const recorder =
    options.metrics?.recorder(options.name, () => [...running.values()].map(secondsSince)) ??
    silentQueueRecorder;

  function add(key: string): void {
    if (stopping.signal.aborted) return;
    if (running.has(key)) {
      if (!addedMeanwhile.has(key)) recorder.added();
      addedMeanwhile.add(key);
      return;
    }
    if (waiting.has(key)) return;
    recorder.added();
    enqueue(key);
  }

  function enqueue(key: string): void {
    waiting.set(key, clock.monotonic());
    recorder.depth(waiting.size);
    takeUp();
  }

  function addAfter(key: string, ms: number): void {
    if (stopping.signal.aborted) return;
    if (ms <= 0) {
      add(key);
      return;
    }
    const dueAt = clock.monotonic() + ms;
    const present = timers.get(key);
    if (present !== undefined && present.dueAt <= dueAt) return;
    present?.cancel();
    const link = linkAbort(stopping.signal);
    const timer: Timer = { dueAt, cancel: link.abort };
    timers.set(key, timer);
    void pause(clock, ms, link.signal).then((waited) => {
      link.release();
      if (timers.get(key) === timer) timers.delete(key);
      if (waited) add(key);
    });
  }

  function takeUp(): void {
    if (!started || stopping.signal.aborted) return;
    for (const [key, addedAt] of waiting) {
      if (running.size >= concurrency) return;
      waiting.delete(key);
      recorder.depth(waiting.size);
      recorder.waited(secondsSince(addedAt));
      const working = workOn(key);
      work.add(working);
      void working.then(() => work.delete(working));
    }
  }

  async function workOn(key: string): Promise<void> {
    const startedAt = clock.monotonic();
    running.set(key, startedAt);
    const outcome = await attempt(key);
    running.delete(key);
    recorder.worked(secondsSince(startedAt));
    conclude(key, outcome);
    if (addedMeanwhile.delete(key) && !stopping.signal.aborted) enqueue(key);
    takeUp();
  }

  async function attempt(key: string): Promise<WorkOutcome> {
    try {
      return await options.process(key, stopping.signal);
    } catch (error) {
      logger.error(`[controller] ${options.name}: work threw: "${key}"`, { error });
      return { kind: 'failed', reason: error instanceof Error ? error.name : 'exception' };
    }
  }

  function conclude(key: string, outcome: WorkOutcome): void {
    if (outcome.kind !== 'failed') {
      failures.delete(key);
      if (outcome.kind === 'again') addAfter(key, outcome.afterMs);
      return;
    }
    if (stopping.signal.aborted) return;
    const count = failures.get(key) ?? 0;
    failures.set(key, count + 1);
    const delay = Math.min(retryCapMs, retryBaseMs * 2 ** count);
    recorder.retried();
    const level = count === 0 ? 'warn' : 'debug';
    logger[level](
      `[controller] ${options.name}: ${outcome.reason}: "${key}"; again in ${delay} ms`,
    );
    addAfter(key, delay);
  }

  return {
    add,
    addAfter,
    get depth() {
      return waiting.size;
    },
    run: async (signal) => {
      started = true;
      takeUp();
      if (!signal.aborted) {
        await new Promise((resolve) => {
          signal.addEventListener('abort', resolve, { once: true });
        });
      }
      stopping.abort();
      waiting.clear();
      recorder.depth(0);
      await Promise.all(work);
    },
  };
}
