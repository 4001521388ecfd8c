import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const run = promisify(execFile);

let clone: string;
beforeEach(async () => {
  clone = await mkdtemp(join(tmpdir(), 'node-'));
  await mkdir(join(clone, 'scripts'));
  await mkdir(join(clone, 'bin'));
  for (const file of ['scripts/node', 'package.json']) {
    await copyFile(join(ROOT, file), join(clone, file));
  }
});
afterEach(() => rm(clone, { recursive: true }));

/** A clone without packages, on a machine with this Node version. */
async function onMachineWith(version: string): Promise<string> {
  const node = join(clone, 'bin/node');
  await writeFile(node, `#!/bin/sh\n[ "$1" = --version ] && echo ${version} || echo "ran $*"\n`);
  await chmod(node, 0o755);
  const env = { PATH: `${join(clone, 'bin')}:/usr/bin:/bin` };
  const { stdout } = await run(join(clone, 'scripts/node'), ['scripts/run.ts', '--a'], { env });
  return stdout;
}

test('an old Node ends with an error about a file extension', async () => {
  await expect(onMachineWith('v20.20.2')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('node: version: "20.20.2": too old, 24 or newer is needed'),
  });
});

test('a Node that is new enough is refused, or gets other arguments', async () => {
  expect(await onMachineWith('v24.0.0')).toBe('ran scripts/run.ts --a\n');
});

test('a script of package.json runs TypeScript by a Node that nobody checked', async () => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const unchecked = Object.values(scripts).filter((script) => /(?<!scripts\/)\bnode /.test(script));
  expect(unchecked).toEqual([]);
  const makefile = await readFile(join(ROOT, 'Makefile'), 'utf8');
  expect(makefile.match(/^\t.*(?<!scripts\/)\bnode \S+\.ts/gm)).toBeNull();
});
