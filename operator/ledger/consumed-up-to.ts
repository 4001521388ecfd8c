import type { Cursor } from './ledger.ts';

/** The sequence number up to which every cursor that counts has passed. A retired one counts until RETENTION has passed. */
export function consumedUpTo(cursors: Iterable<Cursor>, now: number, retentionMs: number): number {
  let consumed = Number.MAX_SAFE_INTEGER;
  for (const { sequence, retiredAt } of cursors) {
    if (retiredAt !== undefined && retiredAt + retentionMs <= now) continue;
    consumed = Math.min(consumed, sequence);
  }
  return consumed;
}
