import { createHash } from 'node:crypto';
import { copyFile, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { findBinaries } from '../e2e/control-plane/binaries.ts';
import { archiveOf } from './archive.ts';
import { bundlePlugin, PLUGIN_FILES } from './bundle-plugin.ts';
import { kustomize } from './charts/kustomize.ts';
import { OLM_FOLDERS, writeOlmBundle } from './generate-olm-bundle.ts';
import { sbom } from './sbom.ts';

const ROOT = join(import.meta.dirname, '..');

export interface ReleaseOptions {
  /** Directory to write to; it is emptied first. */
  readonly directory: string;
  /** Path of kubectl. */
  readonly kubectl: string;
  /** Name and digest: `registry.example.com/meterfeed@sha256:…`. */
  readonly image: string;
  readonly version: string;
  readonly changelog: string;
}

/**
 * Writes all files of a release, except image and charts, to a directory
 * (docs/how-to/verify-a-release.md#what-a-release-consists-of). The same sources and the same image
 * give the same bytes. Rejects with all reasons if they are not fit for a release.
 */
export async function writeRelease(options: ReleaseOptions): Promise<void> {
  const { directory, kubectl, image, version, changelog } = options;
  const pinned = /^(?<newName>[^@\s]+)@(?<digest>sha256:[0-9a-f]{64})$/.exec(image)?.groups;
  const notes = notesOf(changelog, version);
  const reasons = [
    pinned ? [] : `image: "${image}": is not pinned; give NAME@sha256:… as the push printed it`,
    notes
      ? []
      : `CHANGELOG.md: no section "## [${version}] - YYYY-MM-DD" with text; name what "[Unreleased]" has`,
  ].flat();
  if (pinned === undefined || notes === undefined) throw new Error(reasons.join('\n'));

  await bundlePlugin(directory);
  await rm(join(directory, PLUGIN_FILES.program));
  const { newName = '', digest = '' } = pinned;
  const manifests = await kustomize(
    kubectl,
    'default',
    [],
    [{ name: 'meterfeed', newName, digest }],
  );
  await writeFile(join(directory, 'install.yaml'), manifests);
  // Only files are published.
  const bundle = join(directory, 'olm');
  await writeOlmBundle(bundle, kubectl, image);
  await writeFile(join(directory, 'olm-bundle.tar.gz'), archiveOf(bundle, OLM_FOLDERS));
  await rm(bundle, { recursive: true });
  const verifier = 'verify-statement';
  await copyFile(join(import.meta.dirname, verifier), join(directory, verifier));
  await writeFile(join(directory, 'sbom.cdx.json'), `${JSON.stringify(sbom(), null, 2)}\n`);
  await writeFile(join(directory, 'notes.md'), `${notes}\n`);
  await writeFile(join(directory, 'SHA256SUMS'), await sums(directory));
}

/**
 * Section of the changelog for a version, without its heading; undefined if it is empty or missing.
 */
function notesOf(changelog: string, version: string): string | undefined {
  const sections = changelog.split(/^## /m).slice(1);
  const section = sections.find((text) => text.startsWith(`[${version}] `));
  const text = section?.slice(section.indexOf('\n')).trim();
  return text === '' ? undefined : text;
}

/** In the format of sha256sum(1). */
async function sums(directory: string): Promise<string> {
  const names = (await readdir(directory)).toSorted();
  const lines = names.map(async (name) => {
    const bytes = await readFile(join(directory, name));
    return `${createHash('sha256').update(bytes).digest('hex')}  ${name}\n`;
  });
  return (await Promise.all(lines)).join('');
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { image: { type: 'string' }, to: { type: 'string', default: 'dist/release' } },
  });
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    version: string;
  };
  try {
    await writeRelease({
      directory: values.to,
      kubectl: (
        await findBinaries({ assets: process.env['KUBEBUILDER_ASSETS'], progress: console.error })
      ).kubectl,
      image: values.image ?? '',
      version,
      changelog: await readFile(join(ROOT, 'CHANGELOG.md'), 'utf8'),
    });
    console.log(`the release is in ${values.to}`);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
