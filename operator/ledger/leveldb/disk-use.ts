import { statfs, open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskLevel } from '../ledger.ts';
import { directoryBytes } from './files.ts';
import { listSegmentDirectories, segmentName } from './segment-names.ts';

/** Disk use of the ledger. */
export interface DiskUse {
  readonly level: DiskLevel;
  /** Bytes of the ledger ÷ (bytes of the ledger + free bytes). */
  readonly usedRatio: number;
  readonly bytes: number;
  readonly roomBytes: number;
}

export interface DiskGauge {
  /** The last measurement. */
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

/** Creates the gauge. Space that the reserve still has to take counts as used. */
export function createDiskGauge(
  directory: string,
  reserve: Reserve,
  freeBytes: FreeBytes,
): DiskGauge {
  let use: DiskUse = { level: 'normal', usedRatio: 0, bytes: 0, roomBytes: 0 };
  let measuring: Promise<DiskUse> | undefined;

  const measure = async (): Promise<DiskUse> => {
    await reserve.restore(await freeBytes(directory));
    const bytes = await ledgerBytes(directory);
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

/** The level for a used share of the space (docs/reference/ledger-format.md#disk-use). */
function diskLevel(usedRatio: number): DiskLevel {
  return LEVELS.find(([from]) => usedRatio >= from)?.[1] ?? 'normal';
}

async function ledgerBytes(directory: string): Promise<number> {
  const { segments } = await listSegmentDirectories(directory);
  let bytes = await directoryBytes(directory);
  for (const first of segments) bytes += await directoryBytes(join(directory, segmentName(first)));
  return bytes;
}

/** A file that occupies space: after deleting it, LevelDB can be opened on a full volume. */
export interface Reserve {
  /** Deletes the file and so frees its space. */
  release(): Promise<void>;
  /** Creates the file, unless it exists or less than twice its size is free. */
  restore(freeBytes: number): Promise<void>;
  /** Bytes that the file does not occupy yet. */
  missingBytes(): number;
}

const FILE = 'RESERVE';
const BLOCK_BYTES = 1024 * 1024;

export function createReserve(directory: string, bytes: number): Reserve {
  const path = join(directory, FILE);
  let present = false;

  return {
    async release() {
      await rm(path, { force: true });
      present = false;
    },
    async restore(freeBytes) {
      if (present) return;
      const found = await stat(path).catch(() => undefined);
      present = found?.size === bytes;
      if (present || freeBytes < 2 * bytes) return;
      await writeZeros(path, bytes);
      present = true;
    },
    missingBytes: () => (present ? 0 : bytes),
  };
}

async function writeZeros(path: string, bytes: number): Promise<void> {
  const handle = await open(path, 'w');
  try {
    for (let remaining = bytes; remaining > 0; remaining -= BLOCK_BYTES) {
      await handle.write(Buffer.alloc(Math.min(remaining, BLOCK_BYTES)));
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}
