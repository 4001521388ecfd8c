import { basename } from 'node:path';
import type { VerifyReport } from '../ledger.ts';
import { readBatchMark } from '../leveldb/batch-marks.ts';
import { readContents } from '../leveldb/entries.ts';
import { damage, toLedgerFailure } from '../leveldb/failures.ts';
import { type Head, readHead } from '../leveldb/head-file.ts';
import { verifySegment } from '../leveldb/verify-segment.ts';
import { type InspectedSegment, openInspection } from './inspection.ts';

/** A chain value that was kept elsewhere. */
export interface Anchor {
  readonly sequence: number;
  readonly chain: string;
}

/** Reads everything in a directory that no process has open, and compares it with HEAD and an anchor. */
export async function verifyDirectory(directory: string, anchor?: Anchor): Promise<VerifyReport> {
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
  let before: InspectedSegment['state'] | undefined;
  for (const path of paths) {
    await check(basename(path), async () => {
      const inspected = await inspection.open(path);
      const { name, database, state } = inspected;
      const { segment } = state;
      try {
        await check(name, () => verifySegment(database, name, segment, { ids: true }));
        await check(name, async () => void (await readContents(database, name)));
        await check(name, async () => compareSegments(before, inspected));
        const mark = anchor && (await readBatchMark(database, name, anchor.sequence));
        anchored ||= mark !== undefined && mark.chain === anchor?.chain;
      } finally {
        await inspection.done(inspected);
      }
      records += segment.lastSequence - segment.firstSequence + 1;
      firstSequence ||= segment.firstSequence;
      before = state;
    });
  }
  await inspection.close();
  // A single segment has no HEAD to compare with.
  if (paths[0] !== directory) {
    await check('HEAD', async () => compareWithHead(before, await readHead(directory)));
  }
  if (!anchored)
    errors.push(`ledger: the chain does not pass through the anchor at ${anchor?.sequence}`);
  return {
    ok: errors.length === 0,
    records,
    segments: paths.length,
    firstSequence,
    lastSequence: before?.segment.lastSequence ?? 0,
    chain: before?.segment.chain ?? '',
    errors,
  };
}

function compareSegments(
  before: InspectedSegment['state'] | undefined,
  { name, state }: InspectedSegment,
): void {
  if (before === undefined) return;
  const expected = before.segment.lastSequence + 1;
  if (state.segment.firstSequence !== expected) {
    throw damage(
      name,
      `events ${expected} to ${state.segment.firstSequence - 1} are missing before it`,
    );
  }
  if (state.segment.firstChain !== before.segment.chain) {
    throw damage(name, 'the chain does not continue from the segment before it');
  }
}

function compareWithHead(newest: InspectedSegment['state'] | undefined, head: Head): void {
  const found = newest?.segment.lastSequence ?? 0;
  if (found < head.sequence)
    throw damage('HEAD', `events ${found + 1} to ${head.sequence} are lost`);
  if ((newest?.batch ?? 0) < head.batch)
    throw damage('HEAD', 'the newest records or cursors are lost');
}
