import { type LedgerBatch, LedgerReadError, type StoredText } from '../ledger.ts';
import { damage } from '../failures.ts';
import { markBefore, walkBatchMarks } from './batch-marks.ts';
import { fieldOf, walkEvents } from './event-walk.ts';
import { toLedgerFailure } from './failures.ts';
import { readableSegments, type StoreView, useSegment } from './find-stored.ts';
import type { SealedSegment, SegmentSummary } from './state.ts';

/** Batches that are read at a time. */
const PAGE_BATCHES = 1_000;

type AnySegment = SegmentSummary | SealedSegment;

/** Implements `batches` of the ledger: the marks by pages, and the texts where they are wanted. */
export async function* readBatches(
  view: () => StoreView,
  sequence: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<LedgerBatch, void, void> {
  for (let next = sequence; ; ) {
    signal?.throwIfAborted();
    const segment = readableSegments(view()).find(({ lastSequence }) => lastSequence >= next);
    if (segment === undefined) return;
    const page = await readPage(view, segment, next).catch((error: unknown) => {
      throw new LedgerReadError(toLedgerFailure(`reading the batch of ${next}`, error));
    });
    yield* page;
    next = (page.at(-1)?.lastSequence ?? segment.lastSequence) + 1;
  }
}

/** The first batches of a segment from the one with event `sequence` on. */
function readPage(
  view: () => StoreView,
  segment: AnySegment,
  sequence: number,
): Promise<readonly LedgerBatch[]> {
  const { firstSequence, firstChain, lastSequence } = segment;
  return useSegment(view(), segment, async (database, where) => {
    const start = Math.max(sequence, firstSequence);
    const before = await markBefore(database, where, firstSequence, start);
    let first = before === undefined ? firstSequence : before.lastSequence + 1;
    let previous = before?.chain ?? firstChain;
    const page: LedgerBatch[] = [];
    for await (const mark of walkBatchMarks(database, where, start, lastSequence)) {
      const range = { firstSequence: first, lastSequence: mark.lastSequence };
      const texts = () => readTexts(view(), range.firstSequence, range.lastSequence);
      page.push({ ...range, previous, chain: mark.chain, root: mark.root, texts });
      [first, previous] = [mark.lastSequence + 1, mark.chain];
      if (page.length === PAGE_BATCHES) break;
    }
    return page;
  });
}

/** The exact texts of a batch. Its segment may be sealed since its mark was read. */
async function readTexts(
  view: StoreView,
  first: number,
  last: number,
): Promise<readonly StoredText[]> {
  const doing = `reading the events from ${first} to ${last}`;
  const segment = readableSegments(view).find(({ lastSequence }) => lastSequence >= last);
  if (segment === undefined) throw damage(doing, 'the segment is gone');
  return useSegment(view, segment, async (database, where) => {
    const found: StoredText[] = [];
    for await (const entries of walkEvents(database, where, first, last)) {
      for (const { sequence, body } of entries) {
        const text = body.toString();
        found.push({ sequence, tenant: fieldOf(text, 'tenant'), text });
      }
    }
    return found;
  }).catch((error: unknown) => {
    throw new LedgerReadError(toLedgerFailure(doing, error));
  });
}
