import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { scratchDirectory } from '../../operator/ledger/testing/scratch.ts';

const run = promisify(execFile);
const SCRIPT = join(import.meta.dirname, '..', 'faults', 'full-disk-process.ts');
const LEVELS = 40;
const STEP_KIB = 12;

/** Runs the process on a volume of 4 MiB of its own; needs a system that allows mounting in a user namespace. */
async function onSmallVolume(leaveKiB: number): Promise<unknown> {
  const { path, remove } = await scratchDirectory();
  const shell = 'mount -t tmpfs -o size=4m tmpfs "$1" && exec "$2" "$3" "$1" "$4"';
  const args = ['-Urm', 'sh', '-c', shell, 'sh', path, process.execPath, SCRIPT, String(leaveKiB)];
  const { stdout } = await run('unshare', args);
  await remove();
  return JSON.parse(stdout);
}

test.each(Array.from({ length: LEVELS }, (_, index) => index * STEP_KIB))(
  'a volume with %i KiB left, filled for real, refuses clearly, loses nothing, and needs no hand once there is room',
  async (leaveKiB) => {
    expect(await onSmallVolume(leaveKiB)).toMatchObject({
      whileFull: 'refused',
      afterwards: 'stored',
      causes: ['full'],
      problems: [],
    });
  },
);
