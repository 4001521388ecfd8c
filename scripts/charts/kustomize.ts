import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { isRecord } from '../../operator/model/is-record.ts';

const CONFIG = join(import.meta.dirname, '../../config');

/** A Kubernetes object as a manifest writes it. */
export interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
}

/**
 * Image for a name in the manifests
 * (https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/images/).
 */
export interface PinnedImage {
  readonly name: string;
  readonly newName: string;
  readonly digest: string;
}

/**
 * Returns the YAML of `kubectl kustomize` for a base of config/ (`default`, `overlays/production`)
 * with components of config/components/. Rejects with kubectl's error.
 */
export async function kustomize(
  kubectl: string,
  base: string,
  components: readonly string[] = [],
  images: readonly PinnedImage[] = [],
): Promise<string> {
  const place = await mkdtemp(join(tmpdir(), 'meterfeed-kustomize-'));
  const from = (path: string): string => relative(place, join(CONFIG, path));
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [from(base)],
    components: components.map((name) => from(`components/${name}`)),
    images,
  };
  try {
    await writeFile(join(place, 'kustomization.yaml'), JSON.stringify(kustomization));
    const options = { maxBuffer: 64 * 1024 * 1024 };
    return (await promisify(execFile)(kubectl, ['kustomize', place], options)).stdout;
  } finally {
    await rm(place, { recursive: true });
  }
}

/**
 * Parses the objects of a stream of manifests, without empty documents. Throws for anything else.
 */
export function objectsOf(manifests: string): readonly KubernetesObject[] {
  return parseAllDocuments(manifests)
    .map((document): unknown => document.toJS())
    .filter((object) => object !== null)
    .map((object) => {
      if (isKubernetesObject(object)) return object;
      throw new TypeError(`no Kubernetes object: ${JSON.stringify(object).slice(0, 200)}`);
    });
}

/** Identifies an object in a cluster: `StatefulSet meterfeed-system/meterfeed`. */
export function identity({ kind, metadata: { name, namespace } }: KubernetesObject): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
}

function isKubernetesObject(value: unknown): value is KubernetesObject {
  if (!isRecord(value) || typeof value['kind'] !== 'string') return false;
  const { metadata } = value;
  return isRecord(metadata) && typeof metadata['name'] === 'string';
}
