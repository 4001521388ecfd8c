import { setTimeout as delay } from 'node:timers/promises';

/** For how long and how often something is looked at, milliseconds. */
export interface Patience {
  readonly patienceMs: number;
  readonly lookMs: number;
}

/** Looks again and again until something holds. Throws an Error with the given text when it does not in time. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  otherwise: string,
  { patienceMs, lookMs: pollMs }: Patience,
): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(otherwise);
    await delay(pollMs);
  }
}
