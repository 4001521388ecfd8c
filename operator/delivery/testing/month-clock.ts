import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../telemetry/clock.ts';

/** Waits that only space requests out; they take no time. */
const SHORT_MS = 60_000;

/** A clock that a test turns through months, for engines on real sockets. */
export interface MonthClock extends Clock {
  /** Wakes whoever slept until then. */
  advanceTo(at: number): void;
}

export function createMonthClock(start: number): MonthClock {
  let now = start;
  const sleepers = new Map<() => void, number>();
  return {
    now: () => now,
    monotonic: () => now - start,
    sleep: (ms, signal) => {
      if (ms <= SHORT_MS) return delay(1, undefined, signal === undefined ? {} : { signal });
      return new Promise((resolve, reject) => {
        const wake = (): void => {
          signal?.removeEventListener('abort', abort);
          resolve();
        };
        const abort = (): void => {
          sleepers.delete(wake);
          reject(new Error('sleep: aborted'));
        };
        if (signal?.aborted === true) return abort();
        signal?.addEventListener('abort', abort, { once: true });
        sleepers.set(wake, now + ms);
      });
    },
    advanceTo: (at) => {
      now = Math.max(now, at);
      for (const [wake, due] of sleepers) {
        if (due > now) continue;
        sleepers.delete(wake);
        wake();
      }
    },
  };
}
