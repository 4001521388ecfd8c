/**
 * A lock with shared and exclusive actions. An exclusive action waits for the running shared ones,
 * and new shared ones wait for it.
 */
export class SharedLock {
  readonly #shared = new Set<Promise<unknown>>();
  #exclusive: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Runs beside other shared actions. */
  async runShared<T>(action: () => Promise<T>): Promise<T> {
    while (this.#waiting > 0) await this.#exclusive;
    const running = action();
    const settled = running.catch(() => undefined);
    this.#shared.add(settled);
    try {
      return await running;
    } finally {
      this.#shared.delete(settled);
    }
  }

  /** Runs alone, after the exclusive actions before it. */
  runExclusive<T>(action: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const running = this.#exclusive.then(async () => {
      try {
        await Promise.all(this.#shared);
        return await action();
      } finally {
        this.#waiting -= 1;
      }
    });
    this.#exclusive = running.catch(() => undefined);
    return running;
  }
}
