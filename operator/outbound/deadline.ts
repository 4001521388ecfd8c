/** Ends an exchange when its time is up or its caller stops. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** What ended it, in words; undefined while nothing has. */
  cause(): string | undefined;
  /** Lets go of the timer and of the caller's signal, which lives longer than the exchange. */
  end(): void;
}

export function createDeadline(ms: number, caller?: AbortSignal): Deadline {
  const controller = new AbortController();
  let cause: string | undefined;
  const stop = (text: string): void => {
    cause ??= text;
    controller.abort();
  };
  const onAbort = (): void => stop('stopped');
  const timer = setTimeout(() => stop('timed out'), ms);
  if (caller?.aborted === true) onAbort();
  caller?.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    cause: () => cause,
    end: () => {
      clearTimeout(timer);
      caller?.removeEventListener('abort', onAbort);
    },
  };
}
