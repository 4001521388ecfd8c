import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system of its own that can be filled to the last page. */
export interface SmallDisk {
  readonly path: string;
  fill(): void;
  /** Takes the filling away again. */
  empty(): void;
  remove(): void;
}

const SIZE = '400m';
const CHUNK = Buffer.alloc(1024 * 1024);

/** Mounts one in memory; undefined for whoever may not. */
export function mountSmallDisk(): SmallDisk | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const path = mkdtempSync(join(tmpdir(), 'small-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', path], { stdio: 'pipe' });
  } catch {
    rmSync(path, { recursive: true });
    return undefined;
  }
  // The server runs as somebody else.
  chmodSync(path, 0o755);
  const filling = join(path, 'filling');
  return {
    path,
    fill() {
      // To the last page: the first file takes what comes in one piece, the second the rest.
      writeUntilFull(filling, CHUNK);
      writeUntilFull(`${filling}-rest`, CHUNK.subarray(0, statfsSync(path).bsize));
    },
    empty() {
      rmSync(filling, { force: true });
      rmSync(`${filling}-rest`, { force: true });
    },
    remove() {
      execFileSync('umount', ['-l', path], { stdio: 'pipe' });
      rmSync(path, { recursive: true, force: true });
    },
  };
}

function writeUntilFull(file: string, chunk: Buffer): void {
  for (;;) {
    try {
      writeFileSync(file, chunk, { flag: 'a' });
    } catch {
      return;
    }
  }
}
