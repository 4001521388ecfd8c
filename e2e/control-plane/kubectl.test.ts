import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findKubectl } from './kubectl.ts';
import { KUBERNETES_SERIES } from './release.ts';

const OWN = '/cache/kubectl';
const MINOR = Number(KUBERNETES_SERIES.split('.')[1]);

let root = '';
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubectl-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** A directory with a kubectl that says this when it is asked for its version. */
async function kubectlStatement(answer: string): Promise<string> {
  const directory = await mkdtemp(join(root, 'bin-'));
  const script = `#!/bin/sh\ncat <<'END'\n${answer}\nEND\n`;
  await writeFile(join(directory, 'kubectl'), script, { mode: 0o755 });
  return directory;
}

const versionOf = (minor: string): string =>
  JSON.stringify({ clientVersion: { major: '1', minor, gitVersion: `v1.${minor}.0` } });

test.each([`${MINOR - 1}`, `${MINOR}`, `${MINOR + 1}+`])(
  'a kubectl 1.%s on the PATH is passed over',
  async (minor) => {
    const empty = join(root, 'empty');
    await mkdir(empty);
    const directory = await kubectlStatement(versionOf(minor));
    const path = [empty, '', directory].join(delimiter);
    expect(await findKubectl(OWN, path)).toBe(join(directory, 'kubectl'));
  },
);

test.each([versionOf(`${MINOR - 2}`), versionOf(`${MINOR + 2}`), 'Client Version: v1.36', '[]'])(
  'a kubectl that does not fit is taken: %s',
  async (answer) => {
    expect(await findKubectl(OWN, await kubectlStatement(answer))).toBe(OWN);
  },
);

test('a machine without kubectl has none', async () => {
  expect(await findKubectl(OWN, root)).toBe(OWN);
});
