import type { Cursor } from './ledger.ts';

/**
 * The sequence number that every active cursor has passed. A retired cursor counts as active until
 * RETENTION has passed.
 */
export function consumedUpTo(cursors: Iterable<Cursor>, now: number, retentionMs: number): number {
  let consumed = Number.MAX_SAFE_INTEGER;
  for (const { sequence, retiredAt } of cursors) {
    if (retiredAt !== undefined && retiredAt + retentionMs <= now) continue;
    consumed = Math.min(consumed, sequence);
  }
  return consumed;
}

/** Deletes old events. Times are milliseconds; `now` is since the epoch. */
export type Retain = (now: number, retentionMs: number) => Promise<void>;
