/** Measured 160 to 210 on disk; the rest is for events with long names and many dimensions. */
const BYTES_PER_EVENT = 250;
/** From 75 % on delivered segments go before their time (docs/ledger-format.md#disk-use). */
const USABLE_SHARE = 0.75;

/** What a ledger is to hold. */
export interface VolumePlan {
  /** Events that one window brings, as seen or as expected: about ten for a tenant cluster. */
  readonly eventsPerWindow: number;
  readonly windowMs: number;
  readonly retentionMs: number;
}

/** The bytes that a volume must have to keep every event for RETENTION (docs/ledger-format.md#disk-use). */
export function volumeNeeded({ eventsPerWindow, windowMs, retentionMs }: VolumePlan): number {
  const events = Math.ceil(retentionMs / windowMs) * eventsPerWindow;
  return Math.ceil((events * BYTES_PER_EVENT) / USABLE_SHARE);
}
