import type { Cursor } from '../ledger.ts';
import type { SealedSegment } from './state.ts';

/** The sequence number up to which every cursor that counts has passed. A retired one counts until RETENTION has passed. */
export function consumedUpTo(cursors: Iterable<Cursor>, now: number, retentionMs: number): number {
  let consumed = Number.MAX_SAFE_INTEGER;
  for (const { sequence, retiredAt } of cursors) {
    if (retiredAt !== undefined && retiredAt + retentionMs <= now) continue;
    consumed = Math.min(consumed, sequence);
  }
  return consumed;
}

/** Whether a segment is older than RETENTION, counted from its sealing or the end of its newest window. */
export function isExpired(segment: SealedSegment, now: number, retentionMs: number): boolean {
  return Math.max(segment.sealedAt, segment.ends?.to ?? 0) < now - retentionMs;
}
