/** Wakes a loop that waits; a ring that nobody hears is kept for the next who waits. */
export interface Bell {
  ring(): void;
  /** Resolves at the next ring, or at once when it has rung since the last wait; also when the signal is aborted. */
  wait(signal: AbortSignal): Promise<void>;
}

export function createBell(): Bell {
  let rung = false;
  let wake: (() => void) | undefined;
  return {
    ring: () => {
      rung = true;
      wake?.();
    },
    wait: (signal) =>
      new Promise((resolve) => {
        const done = (): void => {
          wake = undefined;
          rung = false;
          signal.removeEventListener('abort', done);
          resolve();
        };
        if (rung || signal.aborted) return done();
        wake = done;
        signal.addEventListener('abort', done, { once: true });
      }),
  };
}
