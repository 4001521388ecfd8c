/** Caches answers that many readers request, such as dashboards that poll every minute. */
export class SharedAnswers<T> {
  readonly #now: () => number;
  readonly #maxAnswers: number;
  readonly #mayCache: (answer: T) => boolean;
  readonly #entries = new Map<
    string,
    { readonly answer: Promise<T>; readonly head: number; readonly madeAt: number }
  >();

  constructor(options: {
    /** Monotonic milliseconds. */
    readonly now: () => number;
    /** How many answers are cached, the newest ones. */
    readonly maxAnswers: number;
    /** Whether an answer is small enough to be cached. */
    readonly mayCache: (answer: T) => boolean;
  }) {
    this.#now = options.now;
    this.#maxAnswers = options.maxAnswers;
    this.#mayCache = options.mayCache;
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
    const known = entries.get(key);
    if (known !== undefined && (known.head === head || this.#now() - known.madeAt <= maxAgeMs)) {
      return known.answer;
    }
    const answer = make();
    const entry = { answer, head, madeAt: this.#now() };
    entries.delete(key);
    entries.set(key, entry);
    const [oldest] = entries.keys();
    if (entries.size > this.#maxAnswers && oldest !== undefined) entries.delete(oldest);
    const forget = (): void => {
      if (entries.get(key) === entry) entries.delete(key);
    };
    answer.then((made) => this.#mayCache(made) || forget(), forget);
    return answer;
  }
}
