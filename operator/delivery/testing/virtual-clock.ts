import type { Clock } from '../../telemetry/clock.ts';

const MAX_STEPS = 5_000;

/** A clock whose time passes only while a test waits for something, and then at once. */
export interface VirtualClock extends Clock {
  /** Lets work go on, and time pass whenever all of it sleeps, until the condition holds. */
  until(condition: () => boolean): Promise<void>;
  /** Lets work go on until time would have to pass. */
  settle(): Promise<void>;
  /** Time passes, waking sleepers in order. */
  pass(ms: number): Promise<void>;
  /** The wall clock is set; durations are not touched. */
  step(ms: number): void;
}

interface Sleeper {
  readonly wakeAt: number;
  wake(): void;
}

const START = Date.UTC(2026, 10, 21, 9, 5, 0);
/** Event loop turns after which nothing happens any more without time passing. */
const QUIET_SLICES = 3;

export function createVirtualClock(): VirtualClock {
  let elapsed = 0;
  let stepped = 0;
  const sleepers = new Set<Sleeper>();

  const slices = async (): Promise<void> => {
    for (let slice = 0; slice < QUIET_SLICES; slice += 1) await new Promise(setImmediate);
  };
  const next = (): Sleeper | undefined =>
    [...sleepers].toSorted((a, b) => a.wakeAt - b.wakeAt).at(0);
  const wake = (sleeper: Sleeper): void => {
    elapsed = Math.max(elapsed, sleeper.wakeAt);
    sleepers.delete(sleeper);
    sleeper.wake();
  };

  return {
    now: () => START + elapsed + stepped,
    monotonic: () => elapsed,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const abort = (): void => {
          sleepers.delete(sleeper);
          reject(new Error('sleep: aborted'));
        };
        const sleeper = {
          wakeAt: elapsed + ms,
          wake: () => {
            signal?.removeEventListener('abort', abort);
            resolve();
          },
        };
        if (signal?.aborted === true) return abort();
        signal?.addEventListener('abort', abort, { once: true });
        sleepers.add(sleeper);
      }),
    until: async (condition) => {
      for (let steps = 0; steps < MAX_STEPS; steps += 1) {
        if (condition()) return;
        await slices();
        if (condition()) return;
        const sleeper = next();
        if (sleeper === undefined) throw new Error('nothing sleeps, and the condition never held');
        wake(sleeper);
      }
      throw new Error('the condition never held');
    },
    settle: slices,
    pass: async (ms) => {
      const target = elapsed + ms;
      for (let steps = 0; ; steps += 1) {
        if (steps === MAX_STEPS) throw new Error('sleepers wake without end');
        await slices();
        const sleeper = next();
        if (sleeper === undefined || sleeper.wakeAt > target) break;
        wake(sleeper);
      }
      elapsed = target;
      await slices();
    },
    step: (ms) => {
      stepped += ms;
    },
  };
}
