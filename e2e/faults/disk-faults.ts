import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, stat, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SOURCE = join(import.meta.dirname, 'disk-faults.c');

let compiled: Promise<string> | undefined;

/** What the disk of a process under test is to do; see `disk-faults.c`. */
export interface DiskFaults {
  readonly directory: string;
  readonly log?: string;
  readonly forgetful?: boolean;
  readonly syncError?: number;
  readonly syncDelayMicroseconds?: number;
  readonly full?: { readonly whileExists: string; readonly afterBytes: number };
}

/** The environment that makes a process's disk misbehave. Needs a C compiler. */
export async function diskFaultEnvironment(faults: DiskFaults): Promise<Record<string, string>> {
  compiled ??= compile();
  return {
    LD_PRELOAD: await compiled,
    FAULT_DIR: `${faults.directory}/`,
    ...(faults.log !== undefined && { FAULT_LOG: faults.log }),
    ...(faults.forgetful === true && { FAULT_FORGETFUL: '1' }),
    ...(faults.syncError !== undefined && { FAULT_SYNC_EIO: String(faults.syncError) }),
    ...(faults.syncDelayMicroseconds !== undefined && {
      FAULT_SYNC_DELAY: String(faults.syncDelayMicroseconds),
    }),
    ...(faults.full !== undefined && {
      FAULT_FULL: faults.full.whileExists,
      FAULT_FULL_AFTER: String(faults.full.afterBytes),
    }),
  };
}

/**
 * Cuts every file below a directory back to what was synced, as a power cut may: a random share of
 * what came after may be there as well. Give 0 for `share` to lose all of it.
 */
export async function cutPower(directory: string, log: string, share: () => number): Promise<void> {
  const synced = await readSyncedSizes(log);
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const { size } = await stat(path);
    const kept = synced.get(path) ?? 0;
    if (size > kept) await truncate(path, kept + Math.floor((size - kept) * share()));
  }
}

/** The size of each file at its last sync, under the name it has by now. */
async function readSyncedSizes(log: string): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>();
  for (const line of (await readFile(log, 'utf8').catch(() => '')).split('\n')) {
    const [, size, path] = /^S (\d+) (.+)$/.exec(line) ?? [];
    if (path !== undefined) sizes.set(path, Number(size));
    const [, from, to] = /^R (.+)\t(.+)$/.exec(line) ?? [];
    if (from !== undefined && to !== undefined) rename(sizes, from, to);
  }
  return sizes;
}

function rename(sizes: Map<string, number>, from: string, to: string): void {
  for (const [path, size] of Array.from(sizes)) {
    if (path !== from && !path.startsWith(`${from}/`)) continue;
    sizes.delete(path);
    sizes.set(to + path.slice(from.length), size);
  }
}

async function compile(): Promise<string> {
  const library = join(await mkdtemp(join(tmpdir(), 'disk-faults-')), 'disk-faults.so');
  const args = ['-O1', '-Wall', '-Werror', '-shared', '-fPIC', '-o', library, SOURCE, '-ldl'];
  await run('cc', args).catch((error: unknown) => {
    throw new Error(
      `faults: cc: cannot compile ${SOURCE}; install a C compiler (Debian: gcc libc6-dev)`,
      {
        cause: error,
      },
    );
  });
  return library;
}
