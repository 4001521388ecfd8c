/** Readers that wait for events beyond a sequence number. */
export interface HeadWaiters {
  /** Resolves once {@link advance} was called with more than `afterSequence`; rejects with the signal's reason. */
  wait(afterSequence: number, signal: AbortSignal): Promise<void>;
  advance(head: number): void;
  /** Rejects every reader that still waits. */
  end(reason: Error): void;
}

interface Waiter {
  readonly afterSequence: number;
  resolve(): void;
  reject(reason: unknown): void;
}

export function createHeadWaiters(initialHead: number): HeadWaiters {
  const waiters = new Set<Waiter>();
  let head = initialHead;

  return {
    async wait(afterSequence, signal) {
      signal.throwIfAborted();
      if (head > afterSequence) return;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const waiter: Waiter = { afterSequence, resolve, reject };
      const abort = () => reject(signal.reason);
      waiters.add(waiter);
      signal.addEventListener('abort', abort, { once: true });
      try {
        await promise;
      } finally {
        waiters.delete(waiter);
        signal.removeEventListener('abort', abort);
      }
    },
    advance(newHead) {
      head = newHead;
      for (const waiter of waiters) {
        if (head > waiter.afterSequence) waiter.resolve();
      }
    },
    end(reason) {
      for (const waiter of waiters) waiter.reject(reason);
    },
  };
}
