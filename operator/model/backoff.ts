/** Beyond this many doublings every limit has long reached its cap. */
const LARGEST_EXPONENT = 30;

interface BackoffOptions {
  /** Limit of the first delay, milliseconds. */
  readonly baseMs: number;
  /** Limit of every delay, milliseconds. */
  readonly capMs: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

/**
 * Returns how long to wait after the n-th failure in a row (n from 1), milliseconds. It is a random
 * time below a limit that doubles from `baseMs` to `capMs` ("full jitter"), so that many senders do
 * not return at once.
 */
export function backoffMs(failures: number, { baseMs, capMs, random }: BackoffOptions): number {
  return random() * Math.min(capMs, baseMs * 2 ** Math.min(failures - 1, LARGEST_EXPONENT));
}

/** {@link backoffMs} that counts the failures itself. */
export class Backoff {
  readonly #options: BackoffOptions;
  #failures = 0;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  /** The next delay, milliseconds. */
  next(): number {
    this.#failures += 1;
    return backoffMs(this.#failures, this.#options);
  }

  /** Call it after a success: the limit starts again at `baseMs`. */
  reset(): void {
    this.#failures = 0;
  }
}
