import type { Ledger } from './ledger.ts';

/** Measured 160 to 210 on disk; the rest is for events with long names and many dimensions. */
const BYTES_PER_EVENT = 250;
/** From 75 % on delivered segments go before their time (docs/reference/ledger-format.md#disk-use). */
const USABLE_SHARE = 0.75;
/** From 95 % on no window is closed (docs/reference/troubleshooting.md#the-volume). */
const FULL_SHARE = 0.95;

/** The bytes that a volume must have to keep every event for RETENTION (docs/reference/ledger-format.md#disk-use). */
export function volumeNeeded({
  eventsPerWindow,
  windowMs,
  retentionMs,
}: {
  /** Events that one window brings, as seen or as expected: about ten for a tenant cluster. */
  readonly eventsPerWindow: number;
  readonly windowMs: number;
  readonly retentionMs: number;
}): number {
  const events = Math.ceil(retentionMs / windowMs) * eventsPerWindow;
  return Math.ceil((events * BYTES_PER_EVENT) / USABLE_SHARE);
}

/** About the bytes that a number of events takes. */
export function bytesOf(events: number): number {
  return events * BYTES_PER_EVENT;
}

/**
 * How long a stretch of events the volume holds at the pace of those that it has, in milliseconds; undefined where that is not known.
 */
export function stretchThatFits(
  ledger: Pick<Ledger, 'head' | 'lowWater' | 'stats'>,
  now: number,
): number | undefined {
  const { roomBytes = 0, oldestAt } = ledger.stats();
  const events = ledger.head() - ledger.lowWater();
  if (roomBytes === 0 || oldestAt === undefined || events === 0) return undefined;
  return (FULL_SHARE * roomBytes * (now - oldestAt)) / bytesOf(events);
}
