import type { Clock } from '../../telemetry/clock.ts';

/** How long a step under way may take to end when the loop is stopped. */
const STOP_GRACE_MS = 10_000;

/**
 * What to do after a step: `continue` at once; `end`; `wait` for a wake-up, for `changed`, or `ms` at
 * the most; or stay `blocked` for `ms`, which only {@link Loop.wakeNow} cuts short.
 */
export type NextStep =
  | { readonly kind: 'continue' }
  | { readonly kind: 'end' }
  | {
      readonly kind: 'wait';
      readonly ms?: number;
      readonly changed: (signal: AbortSignal) => Promise<void>;
    }
  | { readonly kind: 'blocked'; readonly ms: number };

/** Repeats a step until it is stopped. */
export interface Loop {
  start(): void;
  /** Ends after the step under way; cuts it after ten seconds. A stopped loop stays stopped. */
  stop(): Promise<void>;
  /** Runs an action between two steps, while no step runs. */
  pausedWhile<T>(action: () => Promise<T>): Promise<T>;
  /** There is something to do, for a loop that waits; a blocked one stays blocked. */
  wake(): void;
  /** An operator wants it now, blocked or not. */
  wakeNow(): void;
}

/** `step` must not throw; its signal is aborted when it must end. */
export function createLoop(clock: Clock, step: (signal: AbortSignal) => Promise<NextStep>): Loop {
  const wakeSignal = createWakeSignal();
  const urgentSignal = createWakeSignal();
  let stopping = new AbortController();
  let hard = new AbortController();
  let running: Promise<void> = Promise.resolve();
  let closed = false;

  const sleep = async (
    next: Exclude<NextStep, { readonly kind: 'continue' | 'end' }>,
  ): Promise<void> => {
    const ended = new AbortController();
    const end = (): void => ended.abort();
    if (stopping.signal.aborted) return;
    stopping.signal.addEventListener('abort', end, { once: true });
    const waits = [urgentSignal.wait(ended.signal)];
    if (next.ms !== undefined) waits.push(clock.sleep(next.ms, ended.signal));
    if (next.kind === 'wait') waits.push(wakeSignal.wait(ended.signal), next.changed(ended.signal));
    await Promise.race(waits).catch(() => undefined);
    end();
    stopping.signal.removeEventListener('abort', end);
    await Promise.allSettled(waits);
  };

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const next = await step(hard.signal);
      if (next.kind === 'end') return;
      if (next.kind !== 'continue') await sleep(next);
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
    wake: () => wakeSignal.raise(),
    wakeNow: () => urgentSignal.raise(),
  };
}

/** Wakes a loop that waits; one that is raised while nobody waits is kept for the next who does. */
export interface WakeSignal {
  raise(): void;
  /** Resolves when it is raised, or at once if it was since the last wait; also when the signal is aborted. */
  wait(signal: AbortSignal): Promise<void>;
}

export function createWakeSignal(): WakeSignal {
  let raised = false;
  let wake: (() => void) | undefined;
  return {
    raise: () => {
      raised = true;
      wake?.();
    },
    wait: (signal) =>
      new Promise((resolve) => {
        const done = (): void => {
          wake = undefined;
          raised = false;
          signal.removeEventListener('abort', done);
          resolve();
        };
        if (raised || signal.aborted) return done();
        wake = done;
        signal.addEventListener('abort', done, { once: true });
      }),
  };
}
