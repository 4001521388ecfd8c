import type { SegmentSummary } from './state.ts';

/** Size limits of a segment; its age is limited as well (docs/reference/ledger-format.md#files). */
export interface SegmentLimits {
  readonly events: number;
  /** Uncompressed bytes of events. */
  readonly bytes: number;
}

const DAY_MS = 86_400_000;
/** Minimum age for sealing by age: each segment costs files and a copy of all entries. */
const YOUNGEST_MS = 1_800_000;

/** Whether the next event begins a segment, by size or age. `retentionMs` is RETENTION. */
export function isFull(
  { firstSequence, lastSequence, bytes, openedAt }: SegmentSummary,
  limits: SegmentLimits,
  retentionMs: number,
  now: number,
): boolean {
  const events = lastSequence - firstSequence + 1;
  if (events === 0) return false;
  return isOld(openedAt, retentionMs, now) || events >= limits.events || bytes >= limits.bytes;
}

/** Segments are deleted as units, so their time span must be short compared with RETENTION. */
function isOld(openedAt: number, retentionMs: number, now: number): boolean {
  const isOfAnotherDay = Math.floor(now / DAY_MS) > Math.floor(openedAt / DAY_MS);
  return isOfAnotherDay || now - openedAt >= Math.max(YOUNGEST_MS, retentionMs / 2);
}
