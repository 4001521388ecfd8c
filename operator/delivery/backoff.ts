import { backoffMs as withinBounds } from '../model/backoff.ts';

const BOUNDS = { baseMs: 1_000, capMs: 300_000 };

/** How long delivery waits after the n-th failure in a row (n from 1), whole milliseconds: up to 5 minutes. */
export function backoffMs(failures: number, random: () => number): number {
  return Math.round(withinBounds(failures, { ...BOUNDS, random }));
}
