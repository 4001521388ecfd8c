import type { Clock } from '../telemetry/clock.ts';
import { createBell } from './bell.ts';

/** How long a step under way may take to end when the loop is stopped. */
const STOP_GRACE_MS = 10_000;

/**
 * What to do after a step: go on at once; end; wait for news, `changed` or at most `ms`; or wait out
 * trouble for `ms`, whatever the news.
 */
export type Rest =
  | { readonly kind: 'none' }
  | { readonly kind: 'end' }
  | {
      readonly kind: 'news';
      readonly ms?: number;
      readonly changed: (signal: AbortSignal) => Promise<void>;
    }
  | { readonly kind: 'trouble'; readonly ms: number };

/** Repeats a step until it is stopped. */
export interface Loop {
  start(): void;
  /** Ends after the step under way; cuts it after ten seconds. A stopped loop stays stopped. */
  stop(): Promise<void>;
  /** Runs an action between two steps, while no step runs. */
  pausedWhile<T>(action: () => Promise<T>): Promise<T>;
  /** There is something new, for a loop that has nothing to do. */
  news(): void;
  /** An operator wants it now, trouble or not. */
  urge(): void;
}

/** `step` must not throw; its signal is aborted when it must end. */
export function createLoop(clock: Clock, step: (signal: AbortSignal) => Promise<Rest>): Loop {
  const newsBell = createBell();
  const urgentBell = createBell();
  let stopping = new AbortController();
  let hard = new AbortController();
  let running: Promise<void> = Promise.resolve();
  let closed = false;

  const sleep = async (rest: Exclude<Rest, { readonly kind: 'none' | 'end' }>): Promise<void> => {
    const ended = new AbortController();
    const end = (): void => ended.abort();
    if (stopping.signal.aborted) return;
    stopping.signal.addEventListener('abort', end, { once: true });
    const waits = [urgentBell.wait(ended.signal)];
    if (rest.ms !== undefined) waits.push(clock.sleep(rest.ms, ended.signal));
    if (rest.kind === 'news') waits.push(newsBell.wait(ended.signal), rest.changed(ended.signal));
    await Promise.race(waits).catch(() => undefined);
    end();
    stopping.signal.removeEventListener('abort', end);
    await Promise.allSettled(waits);
  };

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const rest = await step(hard.signal);
      if (rest.kind === 'end') return;
      if (rest.kind !== 'none') await sleep(rest);
    }
  };

  const start = (): void => {
    if (closed) return;
    stopping = new AbortController();
    hard = new AbortController();
    running = run();
  };

  const halt = async (): Promise<void> => {
    stopping.abort();
    const ended = new AbortController();
    const cut = clock.sleep(STOP_GRACE_MS, ended.signal).then(
      () => hard.abort(),
      () => undefined,
    );
    await running;
    ended.abort();
    await cut;
  };

  return {
    start,
    stop: async () => {
      closed = true;
      await halt();
    },
    pausedWhile: async (action) => {
      await halt();
      try {
        return await action();
      } finally {
        start();
      }
    },
    news: () => newsBell.ring(),
    urge: () => urgentBell.ring(),
  };
}
