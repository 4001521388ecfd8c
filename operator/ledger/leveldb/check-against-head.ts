import { readBatchMark } from './batch-marks.ts';
import type { Head } from './head-file.ts';
import type { Problems } from './problems.ts';
import type { LedgerState, SealedSegment } from './state.ts';
import type { Store } from './store.ts';
import { findDamage } from './verify-segment.ts';

/**
 * Reads every event of the active segment and compares how far it goes with what HEAD noted. Damage
 * and loss become problems, and a new segment begins after them, so that no number is given twice
 * and nothing more is written into damaged files (docs/ledger-format.md, "At start", 6 and 7).
 */
export async function checkAgainstHead(
  store: Store,
  noted: Head,
  problems: Problems,
): Promise<void> {
  const { state, sealed } = store.contents();
  const { active, activeName } = store.places();
  for (const line of sealed) {
    if (line.damage !== undefined && line.givenUp !== true) problems.add(line.damage);
  }

  const damage =
    (await findDamage(active, activeName, state.segment, { ids: false })) ??
    (await chainProblem(store, noted));
  if (damage !== undefined) problems.add(damage);
  const lost = lossOf(state, noted);
  if (lost !== undefined) problems.add(`ledger: ${activeName}: ${lost}`);

  const newest = Math.max(state.segment.lastSequence, noted.sequence);
  const empty = state.segment.lastSequence < state.segment.firstSequence;
  const mustBegin = newest > state.segment.lastSequence || (damage !== undefined && !empty);
  if (mustBegin) await store.roll(newest + 1, damage);
  else await store.note();

  const after = store.contents();
  for (const text of missingRanges([...after.sealed, after.state.segment])) problems.add(text);
}

function lossOf(state: LedgerState, noted: Head): string | undefined {
  if (state.batch >= noted.batch) return undefined;
  const last = state.segment.lastSequence;
  const events = last < noted.sequence ? `events ${last + 1} to ${noted.sequence}` : 'no event';
  return `the newest ${noted.batch - state.batch} batches are lost: ${events}, and what else they changed`;
}

/** Whether the chain still passes through the value that HEAD noted. */
async function chainProblem(store: Store, noted: Head): Promise<string | undefined> {
  const { active, activeName, segment } = store.places();
  if (noted.sequence < segment.firstSequence || noted.sequence > segment.lastSequence) {
    return undefined;
  }
  const mark = await readBatchMark(active, activeName, noted.sequence);
  if (mark?.chain === noted.chain) return undefined;
  return `ledger: ${activeName}: the chain at event ${noted.sequence} differs from HEAD: "${mark?.chain ?? ''}"`;
}

/** Numbers that were given and are not stored between segments. */
function missingRanges(
  segments: readonly Pick<SealedSegment, 'firstSequence' | 'lastSequence'>[],
): string[] {
  return segments.flatMap(({ firstSequence }, index) => {
    const before = segments[index - 1]?.lastSequence;
    if (before === undefined || before + 1 === firstSequence) return [];
    return [`ledger: events ${before + 1} to ${firstSequence - 1}: missing`];
  });
}
