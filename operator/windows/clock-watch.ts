import type { Clock } from '../telemetry/clock.ts';

/** Notices when the wall clock was set while the monotonic clock went on. */
export interface ClockWatch {
  /** The step since the last look, milliseconds, signed; 0 when there was none worth telling. */
  look(): number;
}

/** Slewing and scheduling delays stay far below this (design 6). */
const STEP_MS = 30_000;

export function createClockWatch(clock: Clock): ClockWatch {
  let wall = clock.now();
  let monotonic = clock.monotonic();
  return {
    look: () => {
      const now = clock.now();
      const elapsed = clock.monotonic() - monotonic;
      const step = now - wall - elapsed;
      wall = now;
      monotonic += elapsed;
      return Math.abs(step) > STEP_MS ? Math.round(step) : 0;
    },
  };
}
