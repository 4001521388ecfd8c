import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../telemetry/clock.ts';

const LONGEST_SLEEP_MS = 4;

/**
 * A clock for tests on real sockets: sleeps are cut to a few milliseconds, and the rest counts as
 * passed.
 */
export function createFastClock(start: number): Clock {
  let skipped = 0;
  const origin = performance.now();
  const elapsed = (): number => performance.now() - origin + skipped;
  return {
    now: () => start + elapsed(),
    monotonic: elapsed,
    sleep: async (ms, signal) => {
      const real = Math.min(ms, LONGEST_SLEEP_MS);
      await delay(real, undefined, signal === undefined ? {} : { signal });
      skipped += ms - real;
    },
  };
}
