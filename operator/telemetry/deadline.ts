import { linkAbort } from './abort.ts';

/**
 * A signal that aborts after `timeoutMs` or with the caller's signal. Each request has its own:
 * `AbortSignal.any` on a long-lived signal would accumulate listeners.
 */
export function createDeadline(timeoutMs: number, caller: AbortSignal | undefined) {
  const link = linkAbort(caller ?? new AbortController().signal);
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    link.abort();
  }, timeoutMs);
  const disarm = (): void => clearTimeout(timer);
  return {
    signal: link.signal,
    expired: () => expired,
    /** Stops the timeout; the signal still follows the caller's. */
    disarm,
    /** Stops the timeout and removes the listener from the caller's signal. */
    release: (): void => {
      disarm();
      link.release();
    },
  };
}
