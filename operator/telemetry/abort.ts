import type { Clock } from './clock.ts';

/** An abort signal that also follows its parent; `release` removes its listener from the parent. */
export function linkAbort(parent: AbortSignal) {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  if (parent.aborted) controller.abort();
  else parent.addEventListener('abort', abort, { once: true });
  return {
    signal: controller.signal,
    abort,
    release: (): void => parent.removeEventListener('abort', abort),
  };
}

/** Sleeps `ms` milliseconds. Resolves with false when the signal cut the sleep short. */
export async function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return false;
  if (ms <= 0) return true;
  try {
    await clock.sleep(ms, signal);
    return true;
  } catch {
    return false;
  }
}

/** Resolves when one of the signals is aborted; at once when one already is. */
export async function untilAborted(...signals: readonly AbortSignal[]): Promise<void> {
  if (signals.some((signal) => signal.aborted)) return;
  await new Promise<void>((resolve) => {
    for (const signal of signals) signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
