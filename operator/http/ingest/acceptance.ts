import type { UsageEvent } from '../../model/event.ts';
import { quote } from '../../model/validate-event.ts';
import { formatInstant } from '../../model/window.ts';

/** A window may end this far ahead of our clock: clients' clocks differ. */
const MAX_AHEAD_MS = 5 * 60_000;

/** The longest that destinations accept usage after the fact; older ids are not remembered either. */
const MAX_AGE_MS = 34 * 24 * 3_600_000;

export interface AcceptanceContext {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly retentionMs: number;
  /** The ledger may have forgotten ids of windows that ended at or before this time. */
  readonly horizon: number;
}

/** Why the window of an event may not be pushed in, or undefined when it may. */
export type WindowRefusal = (event: UsageEvent) => string | undefined;

/**
 * The windows that may be pushed in at a moment (design 7, Ingest). Deduplication has to cover all
 * that is accepted, so nothing is older than what the ledger keeps. Instants of one spelling compare
 * as texts.
 */
export function acceptWindows({ now, retentionMs, horizon }: AcceptanceContext): WindowRefusal {
  const oldest = Math.max(now - Math.min(retentionMs, MAX_AGE_MS), horizon + 1);
  const newestEnd = formatInstant(now + MAX_AHEAD_MS);
  const oldestEnd = formatInstant(toNextSecond(oldest));
  const oldestStart = formatInstant(toNextSecond(now - MAX_AGE_MS));
  return ({ window_start: start, window_end: end }) => {
    if (end > newestEnd) {
      return `more than 5 minutes ahead: window_end: ${quote(end)}: send it once it has ended`;
    }
    if (end < oldestEnd) {
      return `too old: window_end: ${quote(end)}: the oldest accepted is ${oldestEnd}`;
    }
    if (start < oldestStart) {
      return `too old: window_start: ${quote(start)}: the oldest accepted is ${oldestStart}`;
    }
    return undefined;
  };
}

function toNextSecond(ms: number): number {
  return Math.ceil(ms / 1000) * 1000;
}
