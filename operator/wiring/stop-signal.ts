/** A terminal and a supervisor may both tell a process to stop; only what comes later is impatience. */
const SAME_REQUEST_MS = 2_000;

/** Aborted by SIGINT or SIGTERM; another one of them, seconds later, ends the process at once. */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  let askedAt = 0;
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      if (!stop.signal.aborted) askedAt = performance.now();
      else if (performance.now() - askedAt > SAME_REQUEST_MS) process.exit(130);
      stop.abort();
    });
  }
  return stop.signal;
}
