import type { UsageEvent } from '../../usage/event.ts';
import { quote } from '../../usage/validate-event.ts';
import { formatInstant } from '../../usage/window.ts';

/** A window may end this far ahead of our clock: clients' clocks differ. */
const MAX_AHEAD_MS = 5 * 60_000;

/** The longest that destinations accept usage after the fact; older ids are not remembered either. */
const MAX_AGE_MS = 34 * 24 * 3_600_000;

/**
 * Why a window may not be pushed in at `now`, or undefined when it may (design 7, Ingest):
 * deduplication has to cover all that is accepted, so nothing is older than the retention.
 */
export function windowRefusal(
  event: UsageEvent,
  now: number,
  retentionMs: number,
): string | undefined {
  const end = Date.parse(event.window_end);
  if (end > now + MAX_AHEAD_MS) {
    return `more than 5 minutes ahead: window_end: ${quote(event.window_end)}: send it once it has ended`;
  }
  const maxAge = Math.min(retentionMs, MAX_AGE_MS);
  const oldest = formatInstant(Math.ceil((now - maxAge) / 1000) * 1000);
  if (end < now - maxAge) {
    return `too old: window_end: ${quote(event.window_end)}: the oldest accepted is ${oldest}`;
  }
  if (Date.parse(event.window_start) < now - MAX_AGE_MS) {
    return `too old: window_start: ${quote(event.window_start)}: at most 34 days ago`;
  }
  return undefined;
}
