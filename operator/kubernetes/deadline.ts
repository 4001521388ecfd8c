import { linkAbort } from './abort.ts';

/**
 * A time within which something must be over, and a caller that may end it before. A signal of its own per request: `AbortSignal.any` on a long-lived signal would pile
 * up listeners.
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
    /** The time no longer counts; the signal still follows the caller's. */
    disarm,
    /** Nothing is awaited any more. */
    release: (): void => {
      disarm();
      link.release();
    },
  };
}

/**
 * A request that still waits for a connection does not hear its signal: it would wait for as long as
 * a silent server takes every connection in turn. It ends by itself later, when it would be sent.
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
