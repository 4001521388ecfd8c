import { isRecord } from '../../model/is-record.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { metadataOf } from '../../kubernetes/resource.ts';

/** Deeper than any object of Kubernetes with its managed fields. */
const DEEPEST = 64;
/** Most values in one object. The largest ones have about ten thousand. */
const MOST_VALUES = 100_000;
/** Most characters in all annotations of one object, keys and values. */
const MOST_ANNOTATION_LENGTH = 256 * 1024;

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
/** Names of attributes and capacities of devices may begin with an underscore. */
const NAME_PART = /^[A-Za-z0-9_]([-A-Za-z0-9_.]*[A-Za-z0-9_])?$/;
const PRINTABLE = /^[!-~]{1,128}$/;

/** Fields that map resource names to amounts, at any depth. */
const RESOURCE_MAPS: ReadonlySet<string> = new Set([
  'capacity',
  'allocatable',
  'requests',
  'limits',
  'allocatedResources',
  'overhead',
]);

/**
 * Returns how an object breaks the rules of Kubernetes itself, or undefined. Every API server keeps
 * these rules: the grammar of names, labels, annotations and resources, and a bounded size. It
 * quotes only names that follow the rules.
 */
export function foreignObjectProblem(object: RawObject): string | undefined {
  const { name, namespace, uid, resourceVersion, labels, annotations } = metadataOf(object);
  if (typeof name !== 'string' || !isSubdomain(name)) return 'metadata.name: not a DNS subdomain';
  const problem =
    namespaceProblem(namespace) ??
    (isPrintable(uid) ? undefined : 'metadata.uid: not one printable word of 128 characters') ??
    (isPrintable(resourceVersion)
      ? undefined
      : 'metadata.resourceVersion: not one printable word') ??
    labelsProblem(labels) ??
    annotationsProblem(annotations) ??
    structureProblem(object);
  return problem === undefined ? undefined : `"${name}": ${problem}`;
}

function isSubdomain(text: string): boolean {
  return text.length <= 253 && SUBDOMAIN.test(text);
}

function isPrintable(value: unknown): boolean {
  return typeof value === 'string' && PRINTABLE.test(value);
}

function namespaceProblem(namespace: unknown): string | undefined {
  if (namespace === undefined || namespace === null || namespace === '') return undefined;
  const fits = typeof namespace === 'string' && namespace.length <= 63 && LABEL.test(namespace);
  return fits ? undefined : 'metadata.namespace: not a DNS label';
}

/** `name` or `prefix/name`. */
function isQualifiedName(text: string): boolean {
  const slash = text.indexOf('/');
  const name = text.slice(slash + 1);
  if (name.length > 63 || !NAME_PART.test(name)) return false;
  return slash === -1 || isSubdomain(text.slice(0, slash).toLowerCase());
}

function labelsProblem(labels: unknown): string | undefined {
  if (labels === undefined || labels === null) return undefined;
  if (!isRecord(labels)) return 'metadata.labels: not a map of text';
  for (const [key, value] of Object.entries(labels)) {
    if (!isQualifiedName(key)) return 'metadata.labels: a key is not a qualified name';
    if (typeof value !== 'string') return 'metadata.labels: not a map of text';
    const fits = value === '' || (value.length <= 63 && NAME_PART.test(value));
    if (!fits) return 'metadata.labels: a value is not one of at most 63 characters';
  }
  return undefined;
}

function annotationsProblem(annotations: unknown): string | undefined {
  if (annotations === undefined || annotations === null) return undefined;
  if (!isRecord(annotations)) return 'metadata.annotations: not a map of text';
  let length = 0;
  for (const [key, value] of Object.entries(annotations)) {
    if (!isQualifiedName(key)) return 'metadata.annotations: a key is not a qualified name';
    if (typeof value !== 'string') return 'metadata.annotations: not a map of text';
    length += key.length + value.length;
  }
  return length > MOST_ANNOTATION_LENGTH ? 'metadata.annotations: more than 256 KiB' : undefined;
}

/** Walks level by level without recursion, because the depth is unknown. */
function structureProblem(object: RawObject): string | undefined {
  let values = 0;
  let level: readonly object[] = [object];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > DEEPEST) return `nested more than ${DEEPEST} levels deep`;
    const next: object[] = [];
    for (const parent of level) {
      const inside: readonly unknown[] = Array.isArray(parent) ? parent : Object.values(parent);
      values += inside.length;
      if (values > MOST_VALUES) return `more than ${MOST_VALUES} values`;
      const problem = isRecord(parent) ? resourceMapProblem(parent) : undefined;
      if (problem !== undefined) return problem;
      for (const value of inside) if (isObject(value)) next.push(value);
    }
    level = next;
  }
  return undefined;
}

function resourceMapProblem(parent: RawObject): string | undefined {
  for (const key of Object.keys(parent)) {
    if (!RESOURCE_MAPS.has(key)) continue;
    const map = parent[key];
    if (isRecord(map) && !Object.keys(map).every(isQualifiedName)) {
      return `${key}: a key is not the name of a resource`;
    }
  }
  return undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
