/** Answers that many readers ask for and that one of them has made: dashboards ask the same every minute. */
export class SharedAnswers<T> {
  readonly #now: () => number;
  readonly #maxAnswers: number;
  readonly #mayKeep: (answer: T) => boolean;
  readonly #entries = new Map<
    string,
    { readonly answer: Promise<T>; readonly head: number; readonly madeAt: number }
  >();

  constructor(options: {
    /** Monotonic milliseconds. */
    readonly now: () => number;
    /** Answers that are kept at a time, the newest. */
    readonly maxAnswers: number;
    /** Whether an answer is small enough to be kept. */
    readonly mayCache: (answer: T) => boolean;
  }) {
    this.#now = options.now;
    this.#maxAnswers = options.maxAnswers;
    this.#mayKeep = options.mayCache;
  }

  /**
   * The answer of a key, made now unless one that is fresh enough is there or under way. `head` is the sequence number
   * of the newest event: an answer made at the same one is as good as a new one. Others may be `maxAgeMs` old.
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
    answer.then((made) => this.#mayKeep(made) || forget(), forget);
    return answer;
  }
}
