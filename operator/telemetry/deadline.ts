/**
 * A signal that aborts after `timeoutMs` or with the caller's signal. Each request has its own:
 * `AbortSignal.any` on a long-lived signal would accumulate listeners.
 */
export function createDeadline(timeoutMs: number, caller: AbortSignal | undefined) {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    abort();
  }, timeoutMs);
  const disarm = (): void => clearTimeout(timer);
  if (caller?.aborted === true) abort();
  caller?.addEventListener('abort', abort, { once: true });
  return {
    signal: controller.signal,
    expired: () => expired,
    /** Stops the timeout; the signal still follows the caller's. */
    disarm,
    /** Stops the timeout and removes the listener from the caller's signal. */
    release: (): void => {
      disarm();
      caller?.removeEventListener('abort', abort);
    },
  };
}
