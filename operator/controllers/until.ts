/** Resolves once the condition holds, asked again whenever a listener is called. */
export async function until(
  condition: () => boolean,
  listeners: Set<() => void>,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  if (condition()) return;
  await new Promise<void>((resolve, reject) => {
    const end = (): void => {
      listeners.delete(check);
      signal.removeEventListener('abort', abort);
    };
    const abort = (): void => {
      end();
      reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
    };
    const check = (): void => {
      if (!condition()) return;
      end();
      resolve();
    };
    listeners.add(check);
    signal.addEventListener('abort', abort, { once: true });
  });
}
