import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { documentFiles, readAssets } from '../operator/http/dashboard/dashboard.ts';
import { bundle } from './bundle.ts';

const ROOT = join(import.meta.dirname, '..');

test('a page of the dashboard or of its documentation is not in the bundle', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-bundle-'));
  try {
    await bundle(directory);
    const shipped = readAssets(join(directory, 'client'));
    expect([...shipped.keys()].toSorted()).toStrictEqual([...readAssets().keys()].toSorted());
    expect(shipped.get('docs/destinations/webhook.md')?.body.toString()).toContain('# ');
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('a page of the documentation is not there when the image is built', async () => {
  const copied = (await readFile(join(ROOT, 'Dockerfile'), 'utf8'))
    .split('\n')
    .flatMap((line) => /^COPY (?!--)(.*) \S+$/.exec(line)?.[1]?.split(' ') ?? []);
  const files = documentFiles().map(([, file]) => relative(ROOT, file));
  const missing = files.filter(
    (file) => !copied.some((one) => file === one || file.startsWith(`${one}/`)),
  );
  expect(missing).toStrictEqual([]);
});
