/** Many readers at a time, or one writer. A waiting writer goes before later readers. */
export class ReadWriteLock {
  /** Resolves to nothing: what readers were given is theirs alone, and would be kept for ever by a chain of it. */
  #readers: Promise<void> = Promise.resolve();
  #writer: Promise<unknown> = Promise.resolve();

  read<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#writer.then(action);
    this.#readers = settled([this.#readers, result]);
    return result;
  }

  write<T>(action: () => Promise<T>): Promise<T> {
    const result = Promise.all([this.#readers, this.#writer]).then(action);
    this.#writer = settled([result]);
    return result;
  }
}

async function settled(promises: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(promises);
}
