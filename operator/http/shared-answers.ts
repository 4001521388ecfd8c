/** What a reader of an answer makes do with. */
export interface Freshness {
  /** The sequence number of the newest event: an answer made at the same one is as good as a new one. */
  readonly head: number;
  /** How old an answer may otherwise be, milliseconds. */
  readonly maxAgeMs: number;
}

/** Answers that many readers ask for and that one of them has made: dashboards ask the same every minute. */
export interface SharedAnswers<T> {
  /** The answer of a key, made now unless one that is fresh enough is there or under way. */
  get(key: string, freshness: Freshness, make: () => Promise<T>): Promise<T>;
}

export interface SharedAnswersOptions<T> {
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Answers that are kept at a time, the newest. */
  readonly maxAnswers: number;
  /** Whether an answer is small enough to be kept. */
  readonly mayKeep: (answer: T) => boolean;
}

interface Entry<T> {
  readonly answer: Promise<T>;
  readonly head: number;
  readonly madeAt: number;
}

export function createSharedAnswers<T>(options: SharedAnswersOptions<T>): SharedAnswers<T> {
  const { now, maxAnswers, mayKeep } = options;
  const entries = new Map<string, Entry<T>>();
  return {
    get: (key, { head, maxAgeMs }, make) => {
      const known = entries.get(key);
      if (known !== undefined && (known.head === head || now() - known.madeAt <= maxAgeMs)) {
        return known.answer;
      }
      const answer = make();
      const entry = { answer, head, madeAt: now() };
      entries.delete(key);
      entries.set(key, entry);
      const [oldest] = entries.keys();
      if (entries.size > maxAnswers && oldest !== undefined) entries.delete(oldest);
      const forget = (): void => {
        if (entries.get(key) === entry) entries.delete(key);
      };
      answer.then((made) => mayKeep(made) || forget(), forget);
      return answer;
    },
  };
}
