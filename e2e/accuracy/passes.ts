import { setTimeout as delay } from 'node:timers/promises';

/** True when the time has passed, false when the signal came before. */
export async function passes(ms: number, signal: AbortSignal): Promise<boolean> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
  return !signal.aborted;
}
