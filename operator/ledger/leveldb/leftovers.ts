import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Contents } from './entries.ts';
import { isMissing, renameDurably } from './files.ts';
import type { Problems } from './problems.ts';
import { listSegmentDirectories, segmentName, trashName } from './segment-names.ts';

/** Finishes interrupted deletions and compares the directories with the list of segments. */
export async function clearLeftovers(
  directory: string,
  contents: Contents,
  problems: Problems,
): Promise<void> {
  const { segments, leftovers } = await listSegmentDirectories(directory);
  const known = new Set(
    [...contents.sealed, contents.state.segment].map((segment) => segment.firstSequence),
  );
  for (const name of leftovers) await rm(join(directory, name), { recursive: true, force: true });
  for (const number of segments) {
    if (known.has(number)) continue;
    if (number <= contents.state.lowWater) await discardSegment(directory, number);
    else problems.add(`ledger: ${segmentName(number)}: not in the list of segments`);
  }
  const found = new Set(segments);
  const givenUp = new Set(
    contents.sealed.filter((line) => line.givenUp === true).map((line) => line.firstSequence),
  );
  for (const number of known) {
    if (!found.has(number) && !givenUp.has(number))
      problems.add(`ledger: ${segmentName(number)}: missing`);
  }
}

/** Deletes a segment that the list no longer has. The rename makes the deletion certain before it begins. */
export async function discardSegment(
  directory: string,
  firstSequence: number,
  afterRename: () => Promise<void> = async () => undefined,
): Promise<void> {
  const trash = join(directory, trashName(firstSequence));
  await renameDurably(join(directory, segmentName(firstSequence)), trash).catch(
    (error: unknown) => {
      // A segment that was lost whole, and given up.
      if (!isMissing(error)) throw error;
    },
  );
  await afterRename();
  await rm(trash, { recursive: true, force: true });
}
