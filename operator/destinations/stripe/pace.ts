import type { Clock } from '../../telemetry/clock.ts';

/** What may go out at once after a pause, in milliseconds' worth of requests. */
const BURST_MS = 250;

/** Resolves when the next request may go out. Rejects with the signal's reason. */
export type Pace = (signal: AbortSignal) => Promise<void>;

/** Lets so many requests a second pass, evenly, in the order in which they came. */
export function createPace(perSecond: number, clock: Clock): Pace {
  const interval = 1000 / perSecond;
  let next = Number.NEGATIVE_INFINITY;
  return async (signal) => {
    const now = clock.monotonic();
    const at = Math.max(next, now - BURST_MS);
    next = at + interval;
    if (at > now) await clock.sleep(at - now, signal);
  };
}
