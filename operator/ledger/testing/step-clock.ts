import type { Clock } from '../../telemetry/clock.ts';

/** A clock that stands still until a test moves it. */
export interface StepClock extends Clock {
  /** Sets the wall clock, as an administrator would: forwards or back. */
  set(now: number): void;
  /** Lets time pass on both clocks. */
  pass(ms: number): void;
}

export function createStepClock(start: number): StepClock {
  let wall = start;
  let monotonic = 0;
  return {
    now: () => wall,
    monotonic: () => monotonic,
    sleep: async () => undefined,
    set(now) {
      wall = now;
    },
    pass(ms) {
      wall += ms;
      monotonic += ms;
    },
  };
}
