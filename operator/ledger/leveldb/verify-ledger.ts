import type { LedgerFailure, VerifyReport } from '../ledger.ts';
import { type StoredEvents, useSegment } from './find-stored.ts';
import { readContents } from './entries.ts';
import { damage, toLedgerFailure } from './failures.ts';
import type { Problems } from './problems.ts';
import { verifySegment } from './verify-segment.ts';

const MAX_ERRORS = 20;

/** Reads every event and id of every segment, and all records and cursors; not what was given up. */
export async function verifyLedger(
  places: StoredEvents,
  problems: Problems,
  signal?: AbortSignal,
): Promise<VerifyReport> {
  const segments = [...places.sealed, places.segment];
  const errors: string[] = [];
  const report = ({ cause, message }: LedgerFailure): void => {
    errors.push(message);
    // A segment that could not be read just now is not damaged.
    if (cause === 'corrupt') problems.add(message);
  };
  let records = 0;
  let chain: string | undefined;
  let expected: number | undefined;
  for (const segment of segments) {
    const { firstSequence, lastSequence } = segment;
    const givenUp = 'givenUp' in segment;
    if (!givenUp)
      await useSegment(places, segment, (database, where) =>
        verifySegment(database, where, segment, { ids: places.deduplicate }, signal),
      ).catch((error: unknown) => {
        signal?.throwIfAborted();
        report(toLedgerFailure('verifying', error));
      });
    if (chain !== undefined && segment.firstChain !== chain) {
      report(damage(`event ${firstSequence}`, 'the chain does not continue').failure);
    }
    if (expected !== undefined && firstSequence !== expected) {
      report(damage(`events ${expected} to ${firstSequence - 1}`, 'missing').failure);
    }
    if (!givenUp) records += lastSequence - firstSequence + 1;
    chain = segment.chain;
    expected = lastSequence + 1;
  }
  await verifyEntries(places).catch((error: unknown) => {
    report(toLedgerFailure('verifying', error));
  });
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

/** Checks records and cursors as of one moment, while the ledger is being written. */
async function verifyEntries({ active, activeName }: StoredEvents): Promise<void> {
  const snapshot = active.snapshot();
  try {
    await readContents(active, activeName, snapshot);
  } finally {
    await snapshot.close();
  }
}
