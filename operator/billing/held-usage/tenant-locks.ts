/**
 * Many may do the ordinary thing at once; who does the other one is alone: begun ordinary work is
 * waited for, and new work waits.
 */
export class Slices {
  readonly #together = new Set<Promise<unknown>>();
  #alone: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  async together<T>(action: () => Promise<T>): Promise<T> {
    while (this.#waiting > 0) await this.#alone;
    const running = action();
    const settled = running.catch(() => undefined);
    this.#together.add(settled);
    try {
      return await running;
    } finally {
      this.#together.delete(settled);
    }
  }

  alone<T>(action: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const slice = this.#alone.then(async () => {
      try {
        await Promise.all(this.#together);
        return await action();
      } finally {
        this.#waiting -= 1;
      }
    });
    this.#alone = slice.catch(() => undefined);
    return slice;
  }
}
