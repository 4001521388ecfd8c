import { LedgerReadError } from '../ledger.ts';
import { type BatchMark, walkBatchMarks } from './batch-marks.ts';
import { nextChain } from './chain.ts';
import type { Database } from './database.ts';
import { walkEvents } from './event-walk.ts';
import { damage } from './failures.ts';
import type { SegmentSummary } from './state.ts';

/**
 * Reads every event of a segment and calculates the chain anew. Throws a LedgerReadError at the first
 * event that is damaged or missing, or where the chain differs.
 */
export async function verifySegment(
  database: Database,
  where: string,
  segment: SegmentSummary,
  signal?: AbortSignal,
): Promise<void> {
  const { firstSequence, lastSequence } = segment;
  const marks = walkBatchMarks(database, where, firstSequence, lastSequence);
  let chain = segment.firstChain;
  let hash = nextChain(chain);
  let mark = await nextMark(marks);
  for await (const entries of walkEvents(database, where, firstSequence, lastSequence)) {
    signal?.throwIfAborted();
    for (const { sequence, value } of entries) {
      hash.update(value);
      if (mark === undefined || sequence < mark.lastSequence) continue;
      chain = hash.digest('hex');
      if (sequence !== mark.lastSequence || chain !== mark.chain) {
        throw damage(where, `the chain does not match at event ${sequence}`);
      }
      hash = nextChain(chain);
      mark = await nextMark(marks);
    }
  }
  if (chain !== segment.chain || mark !== undefined) {
    throw damage(where, `the chain does not match at its end, event ${lastSequence}`);
  }
}

/** The damage that {@link verifySegment} finds, in words; undefined when there is none. */
export async function findDamage(
  database: Database,
  where: string,
  segment: SegmentSummary,
  signal?: AbortSignal,
): Promise<string | undefined> {
  try {
    await verifySegment(database, where, segment, signal);
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
