import type { Clock } from '../../telemetry/clock.ts';

/**
 * A clock that stands still until a test advances it. Wall clock and monotonic clock move together.
 */
export interface ManualClock extends Clock {
  /** Advances the time and wakes every due sleeper, in order. */
  advance(ms: number): Promise<void>;
  /** Resolves with the duration of the next sleep that the predicate accepts. */
  sleeper(accepts?: (ms: number) => boolean): Promise<number>;
  readonly sleepers: number;
}

interface Sleeper {
  readonly wakeAt: number;
  readonly ms: number;
  wake(): void;
}

export function createManualClock(start = Date.UTC(2026, 0, 1)): ManualClock {
  let elapsed = 0;
  const sleepers = new Set<Sleeper>();
  const observers = new Set<(sleeper: Sleeper) => void>();

  return {
    now: () => start + elapsed,
    monotonic: () => elapsed,
    get sleepers() {
      return sleepers.size;
    },
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const abort = (): void => {
          sleepers.delete(sleeper);
          reject(new Error('sleep: aborted'));
        };
        const sleeper: Sleeper = {
          wakeAt: elapsed + ms,
          ms,
          wake: () => {
            sleepers.delete(sleeper);
            signal?.removeEventListener('abort', abort);
            resolve();
          },
        };
        if (signal?.aborted === true) {
          abort();
          return;
        }
        signal?.addEventListener('abort', abort, { once: true });
        sleepers.add(sleeper);
        for (const observe of observers) observe(sleeper);
      }),
    sleeper: (accepts = () => true) => {
      const present = [...sleepers].find((sleeper) => accepts(sleeper.ms));
      if (present !== undefined) return Promise.resolve(present.ms);
      return new Promise((resolve) => {
        const observe = (sleeper: Sleeper): void => {
          if (!accepts(sleeper.ms)) return;
          observers.delete(observe);
          resolve(sleeper.ms);
        };
        observers.add(observe);
      });
    },
    advance: async (ms) => {
      const target = elapsed + ms;
      for (;;) {
        const next = [...sleepers].toSorted((a, b) => a.wakeAt - b.wakeAt)[0];
        if (next === undefined || next.wakeAt > target) break;
        elapsed = Math.max(elapsed, next.wakeAt);
        next.wake();
        // A woken sleeper may sleep again before the target.
        await new Promise(setImmediate);
      }
      elapsed = target;
      await new Promise(setImmediate);
    },
  };
}
