/** Growing delays with full jitter: each is anywhere between nothing and a limit that doubles. */
export interface Backoff {
  /** The next delay, milliseconds. */
  next(): number;
  /** After a success: the limit starts over. */
  reset(): void;
}

export interface BackoffOptions {
  /** Limit of the first delay. */
  readonly baseMs: number;
  /** Limit of every delay. */
  readonly capMs: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

export function createBackoff({ baseMs, capMs, random }: BackoffOptions): Backoff {
  let limit = baseMs;
  return {
    next: () => {
      const delay = random() * limit;
      limit = Math.min(capMs, limit * 2);
      return delay;
    },
    reset: () => {
      limit = baseMs;
    },
  };
}
