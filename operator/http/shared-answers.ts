import type { Clock } from '../telemetry/clock.ts';

/** Larger answers are not cached. */
const MOST_ROWS = 5000;

/** Caches answers that many readers request, such as dashboards that poll every minute. */
export class SharedAnswers<T extends { readonly rows: readonly unknown[] }> {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #mostAnswers: number;
  readonly #entries = new Map<
    string,
    { readonly answer: Promise<T>; readonly head: number; readonly madeAt: number }
  >();

  /** `mostAnswers`: how many answers are cached, the newest ones. */
  constructor(clock: Pick<Clock, 'monotonic'>, mostAnswers: number) {
    this.#clock = clock;
    this.#mostAnswers = mostAnswers;
  }

  /**
   * Returns the cached answer of a key, or makes one; calls while it is made share it. `head` is
   * the sequence number of the newest event: an answer made at the same head stays valid. Any other
   * is valid for `maxAgeMs`.
   */
  get(
    key: string,
    { head, maxAgeMs }: { readonly head: number; readonly maxAgeMs: number },
    make: () => Promise<T>,
  ): Promise<T> {
    const entries = this.#entries;
    const now = this.#clock.monotonic();
    const known = entries.get(key);
    if (known !== undefined && (known.head === head || now - known.madeAt <= maxAgeMs)) {
      return known.answer;
    }
    const answer = make();
    const entry = { answer, head, madeAt: now };
    entries.delete(key);
    entries.set(key, entry);
    const [oldest] = entries.keys();
    if (entries.size > this.#mostAnswers && oldest !== undefined) entries.delete(oldest);
    const forget = (): void => {
      if (entries.get(key) === entry) entries.delete(key);
    };
    answer.then(({ rows }) => rows.length <= MOST_ROWS || forget(), forget);
    return answer;
  }
}
