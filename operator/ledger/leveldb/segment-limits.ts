import type { SegmentSummary } from './state.ts';

/** When a new segment begins, beside its age: docs/reference/ledger-format.md#files. */
export interface SegmentLimits {
  readonly events: number;
  /** Uncompressed bytes of events. */
  readonly bytes: number;
}

const DAY_MS = 86_400_000;
/** Each segment costs files and a copy of all entries: none ends sooner for its age, however short RETENTION is. */
const YOUNGEST_MS = 1_800_000;

/** Whether the next event begins a new segment, because of what this one holds or since when; `retentionMs` is RETENTION. */
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

/** Segments go as a whole, so they are to be short beside how long they are kept. */
function isOld(openedAt: number, retentionMs: number, now: number): boolean {
  const isOfAnotherDay = Math.floor(now / DAY_MS) > Math.floor(openedAt / DAY_MS);
  return isOfAnotherDay || now - openedAt >= Math.max(YOUNGEST_MS, retentionMs / 2);
}
