/** Time as a value, so that domain code and tests never read the machine's clock themselves. */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. Labels windows; may step. */
  now(): number;
  /** Monotonic milliseconds from an arbitrary origin. Measures durations; never steps. */
  monotonic(): number;
  /** Resolves after `ms`, or rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
