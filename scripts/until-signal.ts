export interface Interruption {
  /** Aborted by the first signal that requests a stop. */
  readonly signal: AbortSignal;
  /** Resolves after that signal. */
  readonly promise: Promise<undefined>;
}

/**
 * Turns Ctrl-C, a closed terminal and `kill` into an orderly stop. A second signal ends the program
 * and its children at once.
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
