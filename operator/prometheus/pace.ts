import type { Clock } from '../telemetry/clock.ts';

/** Waits until a further query may begin, or is given up. */
export type Pace = (signal: AbortSignal) => Promise<void>;

/** Queries begun in a second, of all metrics together (docs/metering.md#one-query-for-all). */
export const QUERIES_PER_SECOND = 200;

/** Evenly many in every second; after a quiet one those of one second may begin at once. */
export function createPace(clock: Clock, perSecond = QUERIES_PER_SECOND): Pace {
  const spacingMs = 1000 / perSecond;
  /** When the next would begin if they were spaced evenly, monotonic. */
  let next = -Infinity;
  return async (signal) => {
    const now = clock.monotonic();
    next = Math.max(now, next) + spacingMs;
    const waitMs = next - now - 1000;
    if (waitMs > 0) await clock.sleep(Math.ceil(waitMs), signal).catch(() => undefined);
  };
}
