import { linkAbort } from './abort.ts';

/**
 * A signal that aborts after `timeoutMs` or with the caller's signal. Each request has its own:
 * `AbortSignal.any` on a long-lived signal would accumulate listeners.
 */
export function createDeadline(timeoutMs: number, outer: AbortSignal | undefined) {
  const link = linkAbort(outer ?? new AbortController().signal);
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

/**
 * Rejects as soon as the signal is aborted. undici ignores the signal of a request that still waits
 * for a free connection: it could wait for minutes while a silent server occupies every connection.
 * The request itself ends later, when undici would send it.
 */
export async function unlessAborted<T>(sent: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = new Promise<never>((_, reject) => {
    const abort = (): void => reject(new Error('aborted'));
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
  sent.catch(() => undefined);
  return Promise.race([sent, aborted]);
}
