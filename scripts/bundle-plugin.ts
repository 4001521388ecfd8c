import { createHash } from 'node:crypto';
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { stringify } from 'yaml';
import { archiveOf } from './archive.ts';

const ROOT = join(import.meta.dirname, '..');

/** Name of the program, its archive and its manifest. */
export const PLUGIN_FILES = {
  program: 'kubectl-meterfeed',
  archive: 'kubectl-meterfeed.tar.gz',
  manifest: 'meterfeed.yaml',
} as const;

const BANNER = [
  '#!/usr/bin/env node',
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
].join('\n');

/**
 * Writes the kubectl plugin to a directory: the program as one file, its archive with the licence,
 * and the manifest for krew. The same sources give the same bytes.
 */
export async function bundlePlugin(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    version: string;
  };
  const program = join(directory, PLUGIN_FILES.program);
  await build({
    entryPoints: [join(ROOT, 'plugin/main.ts')],
    outfile: program,
    bundle: true,
    platform: 'node',
    target: 'node22',
    format: 'esm',
    minify: true,
    charset: 'utf8',
    legalComments: 'eof',
    define: { PLUGIN_VERSION: JSON.stringify(version) },
    banner: { js: BANNER },
    logLevel: 'warning',
  });
  await chmod(program, 0o755);
  await writeFile(join(directory, 'LICENSE'), await readFile(join(ROOT, 'LICENSE')));
  const archive = join(directory, PLUGIN_FILES.archive);
  await writeFile(archive, archiveOf(directory, [PLUGIN_FILES.program, 'LICENSE']));
  const sum = createHash('sha256')
    .update(await readFile(archive))
    .digest('hex');
  await writeFile(
    join(directory, PLUGIN_FILES.manifest),
    stringify(manifest(version, sum), { lineWidth: 0 }),
  );
}

/** https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/ */
function manifest(version: string, sha256: string): object {
  return {
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: 'meterfeed' },
    spec: {
      version: `v${version}`,
      homepage: 'https://meterfeed.io',
      shortDescription: 'Usage and billing of tenant clusters',
      description:
        'Shows what meterfeed measured of each tenant, what it could not measure, what stands behind a number, and how far each billing system is behind.\n',
      caveats:
        'Needs Node.js 22 or later on the PATH, and the right to reach the operator: see docs/how-to/kubectl-plugin.md of meterfeed.\n',
      platforms: [
        {
          selector: {
            matchExpressions: [{ key: 'os', operator: 'In', values: ['linux', 'darwin'] }],
          },
          uri: `https://meterfeed.io/releases/v${version}/${PLUGIN_FILES.archive}`,
          sha256,
          bin: PLUGIN_FILES.program,
          files: [
            { from: PLUGIN_FILES.program, to: '.' },
            { from: 'LICENSE', to: '.' },
          ],
        },
      ],
    },
  };
}

if (import.meta.main) {
  const directory = join(ROOT, 'dist/plugin');
  await bundlePlugin(directory);
  console.log(`the plugin is in ${directory}`);
}
