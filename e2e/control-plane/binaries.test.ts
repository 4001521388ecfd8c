import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type BinarySource, findBinaries } from './binaries.ts';
import { install } from './cache.ts';
import { BINARIES, KUBERNETES_VERSION, platformName } from './release.ts';

let root = '';
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'binaries-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const progress = (): void => {};
const directoryName = `${KUBERNETES_VERSION}-${platformName()}`;

async function fill(directory: string): Promise<void> {
  for (const name of BINARIES) await writeFile(join(directory, name), '', { mode: 0o755 });
}

function source(name: string, obtain: BinarySource['obtain']): BinarySource {
  return { name, obtain };
}

test('a KUBEBUILDER_ASSETS without the programs is refused by name, not passed over', async () => {
  await expect(findBinaries({ assets: root, cacheDirectory: root, progress })).rejects.toThrow(
    `KUBEBUILDER_ASSETS: "${root}": lacks etcd, kube-apiserver, kubectl`,
  );
});

test('KUBEBUILDER_ASSETS wins over the cache', async () => {
  const assets = join(root, 'mine');
  await mkdir(assets);
  await fill(assets);
  const found = await findBinaries({ assets, cacheDirectory: root, progress });
  expect(found.kubeApiserver).toBe(join(assets, 'kube-apiserver'));
});

test('a source that fails gives way to the next, and says why', async () => {
  const lines: string[] = [];
  const found = await findBinaries({
    assets: undefined,
    cacheDirectory: root,
    progress: (line) => lines.push(line),
    sources: [
      source('far away', () => Promise.reject(new Error('no route'))),
      source('near', (cache) => install(cache, KUBERNETES_VERSION, fill)),
    ],
  });
  expect(found.directory).toBe(join(root, directoryName));
  expect(lines).toContain('far away: not possible here: no route');
});

test('when nothing works the error lists what was tried and how to fix it', async () => {
  const failing = source('far away', () => Promise.reject(new Error('no route')));
  await expect(
    findBinaries({ assets: undefined, cacheDirectory: root, progress, sources: [failing] }),
  ).rejects.toThrow(/far away: no route[\s\S]*To fix it: .*KUBEBUILDER_ASSETS/);
});

test('a build that fails half-way leaves nothing that looks complete', async () => {
  const half = source('half', (cache) =>
    install(cache, KUBERNETES_VERSION, async (directory) => {
      await writeFile(join(directory, 'etcd'), '', { mode: 0o755 });
    }),
  );
  await expect(
    findBinaries({ assets: undefined, cacheDirectory: root, progress, sources: [half] }),
  ).rejects.toThrow('did not bring kube-apiserver, kubectl');
  expect(await readdir(root)).toEqual([]);
});

test('two that need the programs at once have them made once', async () => {
  let made = 0;
  const slow = source('slow', (cache) =>
    install(cache, KUBERNETES_VERSION, async (directory) => {
      made += 1;
      await fill(directory);
    }),
  );
  const options = { assets: undefined, cacheDirectory: root, progress, sources: [slow] };
  const found = await Promise.all([findBinaries(options), findBinaries(options)]);
  expect(made).toBe(1);
  expect(found[0].directory).toBe(found[1].directory);
});

test('the lock of a process that died holds nobody up', async () => {
  await writeFile(join(root, '.lock'), '2147483646');
  const near = source('near', (cache) => install(cache, KUBERNETES_VERSION, fill));
  await findBinaries({ assets: undefined, cacheDirectory: root, progress, sources: [near] });
  expect(await readdir(root)).toEqual([directoryName]);
});
