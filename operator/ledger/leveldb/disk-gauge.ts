import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskLevel } from '../ledger.ts';
import { directoryBytes } from './files.ts';
import type { Reserve } from './reserve-file.ts';
import { listSegmentDirectories, segmentName } from './segment-names.ts';

/** How much of its room the ledger uses. */
export interface DiskUse {
  readonly level: DiskLevel;
  /** Own bytes ÷ (own bytes + free bytes). */
  readonly usedRatio: number;
  readonly bytes: number;
  readonly roomBytes: number;
}

export interface DiskGauge {
  /** As of the last measurement. */
  current(): DiskUse;
  measure(): Promise<DiskUse>;
}

/** Free bytes of the volume that a directory is on. */
export type FreeBytes = (directory: string) => Promise<number>;

const LEVELS: readonly (readonly [from: number, level: DiskLevel])[] = [
  [0.95, 'collector-paused'],
  [0.85, 'ingest-refused'],
  [0.75, 'warn'],
  [0, 'normal'],
];

export const systemFreeBytes: FreeBytes = async (directory) => {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
};

/** Room that the reserve has still to get back counts as used. */
export function createDiskGauge(
  directory: string,
  reserve: Reserve,
  freeBytes: FreeBytes,
): DiskGauge {
  let use: DiskUse = { level: 'normal', usedRatio: 0, bytes: 0, roomBytes: 0 };
  let measuring: Promise<DiskUse> | undefined;

  const measure = async (): Promise<DiskUse> => {
    await reserve.restore(await freeBytes(directory));
    const bytes = await ownBytes(directory);
    const free = Math.max(0, (await freeBytes(directory)) - reserve.missingBytes());
    const roomBytes = bytes + free;
    const usedRatio = bytes / Math.max(1, roomBytes);
    use = { level: diskLevel(usedRatio), usedRatio, bytes, roomBytes };
    return use;
  };

  return {
    current: () => use,
    measure() {
      measuring ??= measure().finally(() => {
        measuring = undefined;
      });
      return measuring;
    },
  };
}

/** The level at a used share of the room (docs/ledger-format.md, "Disk use"). */
function diskLevel(usedRatio: number): DiskLevel {
  return LEVELS.find(([from]) => usedRatio >= from)?.[1] ?? 'normal';
}

async function ownBytes(directory: string): Promise<number> {
  const { segments } = await listSegmentDirectories(directory);
  let bytes = await directoryBytes(directory);
  for (const first of segments) bytes += await directoryBytes(join(directory, segmentName(first)));
  return bytes;
}
