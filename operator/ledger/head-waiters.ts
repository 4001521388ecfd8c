interface Waiter {
  readonly afterSequence: number;
  resolve(): void;
  reject(reason: unknown): void;
}

/** Readers that wait for events after a sequence number. */
export class HeadWaiters {
  readonly #waiters = new Set<Waiter>();
  #head: number;

  constructor(initialHead: number) {
    this.#head = initialHead;
  }

  /** Resolves when {@link advance} passes `afterSequence`; rejects with the signal's reason. */
  async wait(afterSequence: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#head > afterSequence) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { afterSequence, resolve, reject };
    const abort = () => reject(signal.reason);
    this.#waiters.add(waiter);
    signal.addEventListener('abort', abort, { once: true });
    try {
      await promise;
    } finally {
      this.#waiters.delete(waiter);
      signal.removeEventListener('abort', abort);
    }
  }

  advance(head: number): void {
    this.#head = head;
    for (const waiter of this.#waiters) if (head > waiter.afterSequence) waiter.resolve();
  }

  /** Rejects every reader that still waits. */
  end(reason: Error): void {
    for (const waiter of this.#waiters) waiter.reject(reason);
  }
}
