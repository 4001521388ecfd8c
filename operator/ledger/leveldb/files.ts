import { open, readdir, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Makes the entries of a directory durable: created, renamed and deleted names. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Renames a file within one directory, durably. */
export async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncDirectory(dirname(to));
}

/** Writes a complete file atomically: after a crash it is complete or absent. */
export async function writeFileDurably(path: string, content: Buffer | string): Promise<void> {
  const draft = `${path}.new`;
  const handle = await open(draft, 'w');
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await renameDurably(draft, path);
}

/** Bytes of the files in a directory, not of directories in it; 0 when it does not exist. */
export async function directoryBytes(directory: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(directory).catch(() => [])) {
    // LevelDB may delete a file meanwhile.
    const found = await stat(join(directory, name)).catch(() => undefined);
    if (found?.isFile() === true) bytes += found.size;
  }
  return bytes;
}

/** Whether an error says that a file or directory does not exist. */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
