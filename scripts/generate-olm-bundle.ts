import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { findBinaries } from '../e2e/control-plane/binaries.ts';
import { kustomize, objectsOf } from './charts/kustomize.ts';
import { olmBundle } from './olm/bundle.ts';

const ROOT = join(import.meta.dirname, '..');

/** Folder of the bundle. */
export const OLM_BUNDLE = join(ROOT, 'olm');

/** Bases of the bundle. */
export const OLM_FOLDERS = ['manifests', 'metadata'] as const;

const HEAD =
  'Generated from config/ and crds/ by "npm run generate:olm". Change it there, never here.';
const PINNED = /^[^@\s]+@sha256:[0-9a-f]{64}$/;

/**
 * Returns the files of the bundle by their path under olm/. `kubectl` is the program's path,
 * `image` a name with its digest for a release. Rejects if the base has something that a bundle
 * cannot contain.
 */
export async function generateOlmBundle(
  kubectl: string,
  image?: string,
): Promise<ReadonlyMap<string, string>> {
  if (image !== undefined && !PINNED.test(image)) {
    throw new Error(`image: "${image}": is not pinned; give NAME@sha256:… as the push printed it`);
  }
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    version: string;
  };
  return olmBundle({
    version,
    base: objectsOf(await kustomize(kubectl, 'default')),
    samples: objectsOf(await kustomize(kubectl, 'samples')),
    icon: await readFile(join(ROOT, 'operator/http/dashboard/client/icon.svg'), 'utf8'),
    image,
    head: HEAD,
  });
}

/**
 * Writes the bundle to a directory, replacing an existing one. Rejects as {@link generateOlmBundle}
 * does.
 */
export async function writeOlmBundle(
  directory: string,
  kubectl: string,
  image?: string,
): Promise<void> {
  const files = await generateOlmBundle(kubectl, image);
  for (const folder of OLM_FOLDERS) {
    await rm(join(directory, folder), { recursive: true, force: true });
  }
  for (const [path, text] of files) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), text);
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { image: { type: 'string' }, to: { type: 'string', default: OLM_BUNDLE } },
  });
  try {
    const { kubectl } = await findBinaries({
      assets: process.env['KUBEBUILDER_ASSETS'],
      progress: (line) => console.error(`[control plane] ${line}`),
    });
    await writeOlmBundle(values.to, kubectl, values.image);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
