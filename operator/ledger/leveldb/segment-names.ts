import { readdir } from 'node:fs/promises';

/** Directory in which the next segment is prepared. */
export const NEXT_DIRECTORY = 'next';

const NAME = /^segment-([0-9a-f]{16})$/;
const TRASH_NAME = /^trash-[0-9a-f]{16}$/;
const NUMBER_DIGITS = 16;

/** The directory of the segment that begins with a sequence number. */
export function segmentName(firstSequence: number): string {
  return `segment-${firstSequence.toString(16).padStart(NUMBER_DIGITS, '0')}`;
}

/** The directory of a segment that is being deleted. */
export function trashName(firstSequence: number): string {
  return segmentName(firstSequence).replace('segment', 'trash');
}

export async function listSegmentDirectories(directory: string): Promise<{
  /** First sequence numbers of the segments, ascending; the last one is active. */
  readonly segments: readonly number[];
  /** Directories that interrupted work has left. */
  readonly leftovers: readonly string[];
}> {
  const names = await readdir(directory);
  return {
    segments: names
      .flatMap((name) => {
        const number = NAME.exec(name)?.[1];
        return number === undefined ? [] : [Number.parseInt(number, 16)];
      })
      .toSorted((a, b) => a - b),
    leftovers: names.filter((name) => name === NEXT_DIRECTORY || TRASH_NAME.test(name)),
  };
}
