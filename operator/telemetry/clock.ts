/** Time as a value, so that domain code and tests never read the machine's clock themselves. */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. It labels windows and may step. */
  now(): number;
  /** Monotonic milliseconds from an arbitrary origin. It measures durations and never steps. */
  monotonic(): number;
  /** Resolves after `ms`. Rejects with the signal's reason if that aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
