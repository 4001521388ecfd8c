import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { kustomize, objectsOf } from './charts/kustomize.ts';
import { generateOlmBundle } from './generate-olm-bundle.ts';
import { writeRelease } from './release.ts';

const DIGEST = `sha256:${'5'.repeat(64)}`;
const IMAGE = `registry.example.com:5000/billing/meterfeed@${DIGEST}`;
const CHANGELOG =
  '# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n\n### Fixed\n\n- Exact.\n\n## [1.2.2] - 2026-01-30\n\n- Not.\n';

const cluster = useTestCluster();

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-release-'));
  await write('first');
}, 60_000);
afterAll(async () => {
  await rm(directory, { recursive: true });
});

const write = (name: string, given: { image?: string; version?: string } = {}): Promise<void> =>
  writeRelease({
    directory: join(directory, name),
    kubectl: cluster.kubectlPath,
    image: IMAGE,
    version: '1.2.3',
    changelog: CHANGELOG,
    ...given,
  });
const read = (release: string, file: string): Promise<string> =>
  readFile(join(directory, release, file), 'utf8');

describe('a release', () => {
  test('is made of other bytes when it is built again', async () => {
    await write('second');
    const files = await readdir(join(directory, 'first'));
    expect(files).toContain('SHA256SUMS');
    expect(files).toContain('kubectl-meterfeed.tar.gz');
    expect(await readdir(join(directory, 'second'))).toStrictEqual(files);
    for (const file of files) {
      expect(await readFile(join(directory, 'second', file))).toStrictEqual(
        await readFile(join(directory, 'first', file)),
      );
    }
    const checked = execFileSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], {
      cwd: join(directory, 'first'),
      encoding: 'utf8',
    });
    expect(checked.match(/: OK$/gm)).toHaveLength(files.length - 1);
  });

  test('installs something else than the sources, or an image that can be exchanged', async () => {
    const released = objectsOf(await read('first', 'install.yaml'));
    const { version } = JSON.parse(
      await readFile(join(import.meta.dirname, '../package.json'), 'utf8'),
    ) as { readonly version: string };
    const image = `"image":"meterfeed:${version}"`;
    const text = JSON.stringify(objectsOf(await kustomize(cluster.kubectlPath, 'default')));
    expect(text.split(image)).toHaveLength(2);
    expect(released).toStrictEqual(JSON.parse(text.replace(image, `"image":"${IMAGE}"`)));
  });

  test('lacks the bundle for catalogues, or has one whose image can be exchanged', async () => {
    const archive = join(directory, 'first/olm-bundle.tar.gz');
    const names = execFileSync('tar', ['--list', '--file', archive], { encoding: 'utf8' });
    const bundle = await generateOlmBundle(cluster.kubectlPath, IMAGE);
    const files = names.split('\n').filter((name) => name !== '' && !name.endsWith('/'));
    expect(files.toSorted()).toStrictEqual([...bundle.keys()].toSorted());
    for (const [path, text] of bundle) {
      const extract = ['--extract', '--to-stdout', '--file', archive, path];
      expect(execFileSync('tar', extract, { encoding: 'utf8' })).toBe(text);
    }
  });

  test('lacks the program that checks statements, or has another one', async () => {
    const file = join(directory, 'first/verify-statement');
    expect(await readFile(file, 'utf8')).toBe(
      await readFile(join(import.meta.dirname, 'verify-statement'), 'utf8'),
    );
    const help = execFileSync('python3', [file, '--help'], { encoding: 'utf8' });
    expect(help).toContain('Checks a statement of meterfeed offline');
    const sums = await read('first', 'SHA256SUMS');
    expect(sums).toMatch(/^[0-9a-f]{64} {2}verify-statement$/m);
  });

  test('has the notes of another version', async () => {
    expect(await read('first', 'notes.md')).toBe('### Fixed\n\n- Exact.\n');
  });

  test('is written although its image can be exchanged and no message says so, or says one reason only', async () => {
    await expect(write('refused', { image: 'meterfeed:1.2.3', version: '1.2.4' })).rejects.toThrow(
      /image: "meterfeed:1\.2\.3": is not pinned.*\n.*no section "## \[1\.2\.4\] - /,
    );
    expect(await readdir(directory)).not.toContain('refused');
  });
});
