import type { Clock } from '../../../operator/telemetry/clock.ts';

/** Where time stands: what has truly passed since the beginning, and how far the wall clock is wrong. */
export interface Moment {
  readonly elapsed: number;
  readonly stepped: number;
}

/**
 * A clock whose time passes only while everything waits for it, and then at once: hours take
 * milliseconds, and nothing that really works is ever overtaken by time.
 */
export interface IdleClock extends Clock {
  moment(): Moment;
  /** True time, whatever the wall clock says. */
  trueTime(): number;
  /** The wall clock is set. */
  step(ms: number): void;
  /** True time is at least this when a process that stood still goes on. */
  catchUp(elapsed: number): void;
  /** Time stands still while `work` is under way. */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** Lets time pass until it is stopped. */
  run(): void;
  stop(): void;
}

/** When every run begins, milliseconds since the epoch. */
export const BEGINNING = Date.UTC(2026, 9, 5, 9, 0, 0);

/** Event loop turns after which nothing happens any more without time passing. */
const QUIET_SLICES = 3;

interface Sleeper {
  readonly wakeAt: number;
  wake(): void;
}

export function createIdleClock(
  start: Moment,
  onPassed: (moment: Moment) => void,
  beginning = BEGINNING,
): IdleClock {
  let { elapsed, stepped } = start;
  let working = 0;
  let stopped = false;
  let changed = Promise.withResolvers<void>();
  const sleepers = new Set<Sleeper>();

  const change = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const next = (): Sleeper | undefined => {
    let first: Sleeper | undefined;
    for (const sleeper of sleepers) {
      if (first === undefined || sleeper.wakeAt < first.wakeAt) first = sleeper;
    }
    return first;
  };
  const isQuiet = async (): Promise<boolean> => {
    for (let slice = 0; slice < QUIET_SLICES; slice += 1) {
      if (working > 0) return false;
      await new Promise(setImmediate);
    }
    return working === 0;
  };
  const drive = async (): Promise<void> => {
    for (;;) {
      if (stopped) return;
      const news = changed.promise;
      const quiet = await isQuiet();
      const sleeper = quiet ? next() : undefined;
      if (sleeper === undefined) {
        await news;
        continue;
      }
      sleepers.delete(sleeper);
      elapsed = Math.max(elapsed, sleeper.wakeAt);
      onPassed({ elapsed, stepped });
      sleeper.wake();
    }
  };

  return {
    now: () => beginning + elapsed + stepped,
    monotonic: () => elapsed,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason as Error);
        const abort = (): void => {
          sleepers.delete(sleeper);
          reject(signal?.reason as Error);
        };
        const sleeper: Sleeper = {
          wakeAt: elapsed + Math.max(0, ms),
          wake: () => {
            signal?.removeEventListener('abort', abort);
            resolve();
          },
        };
        signal?.addEventListener('abort', abort, { once: true });
        sleepers.add(sleeper);
        change();
      }),
    moment: () => ({ elapsed, stepped }),
    trueTime: () => beginning + elapsed,
    step: (ms) => {
      stepped += ms;
    },
    catchUp: (later) => {
      elapsed = Math.max(elapsed, later);
    },
    during: async (work) => {
      working += 1;
      try {
        return await work();
      } finally {
        working -= 1;
        if (working === 0) change();
      }
    },
    run: () => void drive(),
    stop: () => {
      stopped = true;
      change();
    },
  };
}
