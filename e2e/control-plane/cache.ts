import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { KUBERNETES_SERIES, missingBinaries, platformName } from './release.ts';

/** The project's own cache of control plane programs; `make clean` keeps it. */
export const CACHE_DIRECTORY = resolve(import.meta.dirname, '../../.cache/control-plane');

const STAGING_PREFIX = '.staging-';
const LOCK_POLL_MS = 500;

/** The complete cached directory of the newest patch release, or undefined. */
export async function findCached(root: string): Promise<string | undefined> {
  const names = await readdir(root).catch(() => []);
  const pattern = new RegExp(
    `^v${KUBERNETES_SERIES.replace('.', '\\.')}\\.([0-9]+)-${platformName()}$`,
  );
  const candidates = names
    .map((name) => ({ name, patch: Number(pattern.exec(name)?.[1] ?? Number.NaN) }))
    .filter(({ patch }) => !Number.isNaN(patch))
    .toSorted((a, b) => b.patch - a.patch);
  for (const { name } of candidates) {
    const directory = join(root, name);
    if ((await missingBinaries(directory)).length === 0) return directory;
  }
  return undefined;
}

/**
 * Lets `fill` put the programs into an empty directory and then moves it to its place in one step, so
 * that no reader ever sees half of it. Resolves to the final directory.
 */
export async function install(
  root: string,
  version: string,
  fill: (directory: string) => Promise<void>,
): Promise<string> {
  const target = join(root, `${version}-${platformName()}`);
  const staging = join(root, `${STAGING_PREFIX}${process.pid}-${Date.now()}`);
  await mkdir(staging, { recursive: true });
  try {
    await fill(staging);
    const missing = await missingBinaries(staging);
    if (missing.length > 0) throw new Error(`did not bring ${missing.join(', ')}`);
    await rm(target, { recursive: true, force: true });
    await rename(staging, target);
    return target;
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/**
 * Runs `work` while no other process does the same in this cache. A lock whose owner died is broken.
 * The lock only saves double work: installing is atomic without it.
 */
export async function withLock<T>(
  root: string,
  onWait: () => void,
  work: () => Promise<T>,
): Promise<T> {
  const file = join(root, '.lock');
  await mkdir(root, { recursive: true });
  let reported = false;
  while (!(await tryLock(file))) {
    if (!reported) onWait();
    reported = true;
    await breakIfOwnerDied(file);
    await delay(LOCK_POLL_MS);
  }
  try {
    await removeStaging(root);
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

/** What a killed owner left half-made; whoever holds the lock is alone here. */
async function removeStaging(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    if (name.startsWith(STAGING_PREFIX)) await rm(join(root, name), { recursive: true });
  }
}

async function tryLock(file: string): Promise<boolean> {
  try {
    const handle = await open(file, 'wx');
    await handle.writeFile(String(process.pid));
    await handle.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function breakIfOwnerDied(file: string): Promise<void> {
  const owner = Number(await readFile(file, 'utf8').catch(() => ''));
  // An empty file belongs to an owner that has just created it.
  if (!Number.isInteger(owner) || owner === 0) return;
  try {
    process.kill(owner, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') await rm(file, { force: true });
  }
}
