export interface Interruption {
  /** Aborted by the first of the signals that ask a program to stop. */
  readonly signal: AbortSignal;
  /** Resolves then. */
  readonly promise: Promise<undefined>;
}

/**
 * Turns Ctrl-C, a closed terminal and `kill` into an orderly stop. A second one ends the program at
 * once, children included.
 */
export function untilSignal(): Interruption {
  const controller = new AbortController();
  const promise = new Promise<undefined>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(name, () => {
        if (controller.signal.aborted) process.exit(1);
        controller.abort(new Error(`stopped by ${name}`));
        resolve(undefined);
      });
    }
  });
  return { signal: controller.signal, promise };
}
