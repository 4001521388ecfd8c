/**
 * A window `[start, end)` in milliseconds since the Unix epoch, aligned to multiples of the window
 * size counted from the epoch (docs/explanation/metering.md#windows).
 */
export interface Window {
  readonly start: number;
  readonly end: number;
}

/** Two moments, milliseconds since the epoch: `[from, to)` unless stated otherwise. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** RFC 3339 in UTC to the second, the form that identities use: `2026-11-21T09:00:00Z`. */
export function formatInstant(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Milliseconds of the overlap of two half-open intervals; 0 if they do not touch. */
export function overlapMs(aFrom: number, aTo: number, bFrom: number, bTo: number): number {
  return Math.max(0, Math.min(aTo, bTo) - Math.max(aFrom, bFrom));
}
