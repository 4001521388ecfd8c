import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../telemetry/clock.ts';

const LONGEST_SLEEP_MS = 4;

/** A clock for tests on real sockets: whoever sleeps is soon awake, and its time has passed. */
export function createHastyClock(start: number): Clock {
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
