import { crc32 } from 'node:zlib';
import { LedgerReadError, type LedgerFailure, type VerifyReport } from '../ledger.ts';
import type { Database } from './database.ts';
import { decodeStoredEvent, fieldOf, walkEvents, windowStartOf } from './event-walk.ts';
import { chainBatch } from '../batch-chain.ts';
import { damage, type Problems } from '../failures.ts';
import { toLedgerFailure } from './failures.ts';
import { type StoreView, useSegment } from './find-stored.ts';
import { type BatchMark, walkBatchMarks } from './batch-marks.ts';
import { decodeIdValue, idKey, KEY_SPACE, keysOf } from './keys.ts';
import type { PageStarts } from './page-starts.ts';
import {
  addEntry,
  type ChainLink,
  type EntrySum,
  NO_ENTRIES,
  type SegmentSummary,
  readContents,
} from './state.ts';

/** Optional checks of a segment, in addition to events and chain. */
export interface VerifyDepth {
  /** Whether to compare the ids for deduplication with the events. */
  readonly ids: boolean;
  /** Records the window starts of the events that are read. */
  readonly pages?: PageStarts;
}

/** A segment and the position at which the chain changes its form. */
export interface ChainedSegment {
  readonly segment: SegmentSummary;
  readonly link?: ChainLink;
}

/**
 * Reads every event of a segment and recalculates the chain. Throws a LedgerReadError at the first
 * event that is damaged or missing, or at which the chain differs.
 */
export async function verifySegment(
  database: Database,
  where: string,
  { segment, link }: ChainedSegment,
  depth: VerifyDepth,
  signal?: AbortSignal,
): Promise<void> {
  const { firstSequence, lastSequence } = segment;
  const marks = walkBatchMarks(database, where, firstSequence, lastSequence);
  let ids = NO_ENTRIES;
  let chain = segment.firstChain;
  const linkedFrom = link?.from ?? Number.POSITIVE_INFINITY;
  let batch = chainBatch(chain, firstSequence, linkedFrom);
  let mark = await nextMark(marks);
  for await (const entries of walkEvents(database, where, firstSequence, lastSequence)) {
    signal?.throwIfAborted();
    for (const entry of entries) {
      const { sequence } = entry;
      if (depth.ids) ids = addEntry(ids, idChecksum(idKey(decodeStoredEvent(entry).id), sequence));
      depth.pages?.note(sequence, windowStartOf(entry));
      const text = entry.body.toString();
      batch.add(sequence, fieldOf(text, 'tenant'), text);
      if (mark === undefined || sequence < mark.lastSequence) continue;
      const end = batch.end();
      chain = end.chain;
      if (sequence !== mark.lastSequence || chain !== mark.chain || end.root !== mark.root) {
        throw damage(where, `the chain does not match at event ${sequence}`);
      }
      batch = chainBatch(chain, sequence + 1, linkedFrom);
      mark = await nextMark(marks);
    }
  }
  if (chain !== segment.chain || mark !== undefined) {
    throw damage(where, `the chain does not match at its end, event ${lastSequence}`);
  }
  if (!depth.ids) return;
  const stored = await sumIds(database, lastSequence, signal);
  if (stored.count !== ids.count || stored.sum !== ids.sum) {
    throw damage(where, `the ids for deduplication do not match the events`);
  }
}

/** The sum of all stored ids up to an event, for comparison with the ids of the events. */
async function sumIds(
  database: Database,
  lastSequence: number,
  signal: AbortSignal | undefined,
): Promise<EntrySum> {
  let sum = NO_ENTRIES;
  for await (const [key, value] of database.iterator({
    ...keysOf(KEY_SPACE.id),
    fillCache: false,
  })) {
    signal?.throwIfAborted();
    const sequence = decodeIdValue(value);
    if (sequence <= lastSequence) sum = addEntry(sum, idChecksum(key, sequence));
  }
  return sum;
}

function idChecksum(key: Buffer, sequence: number): number {
  return crc32(key, sequence % 2 ** 32);
}

/** The damage that {@link verifySegment} finds, as text; undefined if there is none. */
export async function findDamage(
  database: Database,
  where: string,
  chained: ChainedSegment,
  depth: VerifyDepth,
  signal?: AbortSignal,
): Promise<string | undefined> {
  try {
    await verifySegment(database, where, chained, depth, signal);
    return undefined;
  } catch (error) {
    if (error instanceof LedgerReadError) return error.message;
    throw error;
  }
}

async function nextMark(
  marks: AsyncGenerator<BatchMark, void, void>,
): Promise<BatchMark | undefined> {
  const { value } = await marks.next();
  return value ?? undefined;
}

const MAX_ERRORS = 20;

/** Verifies every event and id of segments that are not given up, and all records and cursors. */
export async function verifyLedger(
  view: StoreView,
  problems: Problems,
  signal?: AbortSignal,
): Promise<VerifyReport> {
  const segments = [...view.sealed, view.segment];
  const errors: string[] = [];
  const report = ({ cause, message }: LedgerFailure): void => {
    errors.push(message);
    // A segment that is temporarily unreadable is not damaged.
    if (cause === 'corrupt') problems.add(message);
  };
  let records = 0;
  let chain: string | undefined;
  let expected: number | undefined;
  for (const segment of segments) {
    const { firstSequence, lastSequence } = segment;
    const givenUp = 'givenUp' in segment;
    if (!givenUp)
      await useSegment(view, segment, (database, where) =>
        verifySegment(
          database,
          where,
          { segment, link: view.link },
          { ids: view.deduplicate },
          signal,
        ),
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
  await verifyEntries(view).catch((error: unknown) => {
    report(toLedgerFailure('verifying', error));
  });
  const last = view.segment.lastSequence;
  return {
    ok: errors.length === 0,
    records,
    segments: segments.length,
    firstSequence: Math.min(last, segments[0]?.firstSequence ?? 0),
    lastSequence: last,
    chain: view.segment.chain,
    errors: errors.slice(0, MAX_ERRORS),
  };
}

/** Verifies records and cursors in a snapshot, while the ledger is being written. */
async function verifyEntries({ active, activeName }: StoreView): Promise<void> {
  const snapshot = active.snapshot();
  try {
    await readContents(active, activeName, snapshot);
  } finally {
    await snapshot.close();
  }
}
