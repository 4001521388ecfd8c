import type { Clock } from '../clock.ts';
import { systemClock } from '../system-clock.ts';

/** The machine's clock, `factor` times as fast. */
export function createScaledClock(factor: number): Clock {
  return {
    now: () => systemClock.now(),
    monotonic: () => systemClock.monotonic() * factor,
    sleep: (ms, signal) => systemClock.sleep(ms / factor, signal),
  };
}
