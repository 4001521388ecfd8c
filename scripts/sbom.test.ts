import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lockedPackages } from './lock-file.ts';
import { sbom } from './sbom.ts';

test('the SBOM names each package of the lock file that can be shipped, with hash and licence', () => {
  const document = sbom();
  expect(document).toMatchObject({
    bomFormat: 'CycloneDX',
    metadata: { component: { name: 'meterfeed', type: 'application' } },
  });
  const named = document.components.map(({ purl }) => decodeURIComponent(purl));
  const shipped = lockedPackages().filter(({ dev }) => dev !== true);
  const wanted = shipped.map(({ name, version }) => `pkg:npm/${name}@${version}`);
  expect(new Set(named)).toStrictEqual(new Set(wanted));
  const refs = new Set([
    ...wanted.map((purl) => purl.slice('pkg:npm/'.length)),
    `meterfeed@${document.metadata.component.version}`,
  ]);
  expect(new Set(document.dependencies.map(({ ref }) => ref))).toStrictEqual(refs);
  for (const { dependsOn } of document.dependencies) {
    expect(dependsOn.filter((ref) => !refs.has(ref))).toStrictEqual([]);
  }
  for (const { hashes, licenses } of document.components) {
    expect(hashes).toMatchObject([{ alg: 'SHA-512' }]);
    expect(licenses).toHaveLength(1);
  }
});

test('--help writes a file of that name', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sbom-'));
  const script = join(import.meta.dirname, 'sbom.ts');
  const text = execFileSync('node', [script, '--help'], { cwd: folder, encoding: 'utf8' });
  expect(text).toContain('npm run sbom -- [FILE]');
  expect(readdirSync(folder)).toStrictEqual([]);
});

test('one lock file gives one SBOM', () => {
  expect(sbom()).toStrictEqual(sbom());
});

test('the image is built without an SBOM beside the bundle', () => {
  const dockerfile = readFileSync(new URL('../Dockerfile', import.meta.url), 'utf8');
  expect(dockerfile).toMatch(
    /node scripts\/bundle\.ts && node scripts\/sbom\.ts dist\/sbom\.cdx\.json/,
  );
  expect(dockerfile).toMatch(/COPY --from=build \/src\/dist \/app/);
});
