import { open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Room that is taken while there is plenty, so that LevelDB can still be opened when there is none. */
export interface Reserve {
  /** Gives the room back to the disk. */
  release(): Promise<void>;
  /** Takes it, unless it is there already or this much free room is not twice as much. */
  restore(freeBytes: number): Promise<void>;
  /** Bytes that are still to be taken. */
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
    for (let rest = bytes; rest > 0; rest -= BLOCK_BYTES) {
      await handle.write(Buffer.alloc(Math.min(rest, BLOCK_BYTES)));
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}
