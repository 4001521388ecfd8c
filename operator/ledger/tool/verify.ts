import { basename } from 'node:path';
import type { VerifyReport } from '../ledger.ts';
import { damage } from '../failures.ts';
import { toLedgerFailure } from '../leveldb/failures.ts';
import { readBatchMark } from '../leveldb/batch-marks.ts';
import { type Head, readHead } from '../leveldb/head-file.ts';
import { segmentName } from '../leveldb/segment-names.ts';
import {
  readContents,
  type LedgerState,
  type SealedSegment,
  type SegmentSummary,
} from '../leveldb/state.ts';
import { verifySegment } from '../leveldb/verify.ts';
import { type InspectedSegment, type LedgerInspection, openInspection } from './inspection.ts';

/** A chain value that is stored outside the ledger. */
export interface Anchor {
  readonly sequence: number;
  readonly chain: string;
}

/**
 * Verifies a directory that no process has open, except given-up segments. Compares it with HEAD,
 * if `comparing` says so, and with an anchor.
 */
export async function verifyDirectory(
  directory: string,
  anchor?: Anchor,
  comparing: 'with HEAD' | 'without HEAD' = 'with HEAD',
): Promise<VerifyReport> {
  const errors: string[] = [];
  const check = async (what: string, work: () => Promise<void>): Promise<void> => {
    await work().catch((error: unknown) => {
      const failure = toLedgerFailure(what, error);
      errors.push(failure.message);
    });
  };
  const inspection = await openInspection(directory);
  const { paths } = inspection;
  let anchored = anchor === undefined;
  let records = 0;
  let firstSequence = 0;
  let before: SegmentSummary | undefined;
  let newest: LedgerState | undefined;
  const givenUp = await givenUpSegments(inspection, directory);
  for (const path of paths) {
    // A completely lost segment has no path.
    const passed = givenUp.findLast((line) => nameOf(line) <= basename(path));
    if (passed !== undefined && passed.firstSequence > (before?.firstSequence ?? 0))
      before = passed;
    if (passed !== undefined && nameOf(passed) === basename(path)) continue;
    await check(basename(path), async () => {
      const inspected = await inspection.open(path);
      const { name, database, state } = inspected;
      const { segment } = state;
      try {
        await check(name, () => verifySegment(database, name, state, { ids: true }));
        // A sealed segment may have lost its entries: the next one has a copy.
        if (path === paths.at(-1))
          await check(name, async () => void (await readContents(database, name)));
        await check(name, async () => compareSegments(before, inspected));
        const mark = anchor && (await readBatchMark(database, name, anchor.sequence));
        anchored ||= mark !== undefined && mark.chain === anchor?.chain;
      } finally {
        await inspection.done(inspected);
      }
      records += segment.lastSequence - segment.firstSequence + 1;
      firstSequence ||= segment.firstSequence;
      before = segment;
      newest = state;
    });
  }
  await inspection.close();
  // A single segment has no HEAD to compare with.
  if (paths[0] !== directory && comparing === 'with HEAD') {
    await check('HEAD', async () => compareWithHead(newest, await readHead(directory)));
  }
  if (!anchored)
    errors.push(`ledger: the chain does not pass through the anchor at ${anchor?.sequence}`);
  return {
    ok: errors.length === 0,
    records,
    segments: paths.length,
    firstSequence,
    lastSequence: before?.lastSequence ?? 0,
    chain: before?.chain ?? '',
    errors,
  };
}

/** The segments that an operator has given up, as the active segment lists them. */
async function givenUpSegments(
  inspection: LedgerInspection,
  directory: string,
): Promise<readonly SealedSegment[]> {
  const path = inspection.paths.at(-1);
  if (path === undefined || path === directory) return [];
  try {
    const { database, name } = await inspection.open(path);
    const { sealed } = await readContents(database, name);
    return sealed.filter(({ givenUp }) => givenUp === true);
  } catch {
    // The loop over the segments reports its damage.
    return [];
  }
}

function compareSegments(
  before: SegmentSummary | undefined,
  { name, state }: InspectedSegment,
): void {
  if (before === undefined) return;
  const expected = before.lastSequence + 1;
  if (state.segment.firstSequence !== expected) {
    throw damage(
      name,
      `events ${expected} to ${state.segment.firstSequence - 1} are missing before it`,
    );
  }
  if (state.segment.firstChain !== before.chain) {
    throw damage(name, 'the chain does not continue from the segment before it');
  }
}

function compareWithHead(newest: LedgerState | undefined, head: Head): void {
  const found = newest?.segment.lastSequence ?? 0;
  if (found < head.sequence)
    throw damage('HEAD', `events ${found + 1} to ${head.sequence} are lost`);
  if ((newest?.batch ?? 0) < head.batch)
    throw damage('HEAD', 'the newest records or cursors are lost');
}

function nameOf({ firstSequence }: SegmentSummary): string {
  return segmentName(firstSequence);
}
