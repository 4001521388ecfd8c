import type { VerifyReport } from '../ledger.ts';
import { type StoredEvents, useSegment } from './find-stored.ts';
import { toLedgerFailure } from './failures.ts';
import { allSegments } from './read-events.ts';
import { findDamage } from './verify-segment.ts';

const MAX_ERRORS = 20;

/** Reads every event of every segment. */
export async function verifyLedger(
  places: StoredEvents,
  signal?: AbortSignal,
): Promise<VerifyReport> {
  const segments = allSegments(places);
  const errors: string[] = [];
  let records = 0;
  let chain: string | undefined;
  let expected: number | undefined;
  for (const segment of segments) {
    const { firstSequence, lastSequence } = segment;
    const found = await useSegment(places, segment, (database, where) =>
      findDamage(database, where, segment, signal),
    ).catch((error: unknown) => {
      signal?.throwIfAborted();
      return toLedgerFailure('verifying', error).message;
    });
    if (found !== undefined) errors.push(found);
    if (chain !== undefined && segment.firstChain !== chain) {
      errors.push(`ledger: the chain does not continue at event ${firstSequence}`);
    }
    if (expected !== undefined && firstSequence !== expected) {
      errors.push(`ledger: events ${expected} to ${firstSequence - 1} are missing`);
    }
    records += lastSequence - firstSequence + 1;
    chain = segment.chain;
    expected = lastSequence + 1;
  }
  const last = places.segment.lastSequence;
  return {
    ok: errors.length === 0,
    records,
    segments: segments.length,
    firstSequence: Math.min(last, segments[0]?.firstSequence ?? 0),
    lastSequence: last,
    chain: places.segment.chain,
    errors: errors.slice(0, MAX_ERRORS),
  };
}
