import { isRecord } from '../model/is-record.ts';
import type { ApiResource, RawObject } from './source.ts';

/** The path of a collection, of one object in it, or of a subresource such as `status`. */
export function resourcePath(resource: ApiResource, name?: string, subresource?: string): string {
  const root =
    resource.group === ''
      ? `/api/${resource.version}`
      : `/apis/${resource.group}/${resource.version}`;
  const scope =
    resource.namespace === undefined ? '' : `/namespaces/${encodeURIComponent(resource.namespace)}`;
  const suffix = [name, subresource]
    .filter((part) => part !== undefined)
    .map((part) => `/${encodeURIComponent(part)}`)
    .join('');
  return `${root}${scope}/${resource.plural}${suffix}`;
}

/** The name that kubectl uses: `pods`, `deployments.apps`. */
export function resourceName(resource: ApiResource): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;
}

/** The resource's name for messages, with its namespace if it has one. */
export function describeResource(resource: ApiResource): string {
  const name = resourceName(resource);
  return resource.namespace === undefined ? name : `${name} in namespace "${resource.namespace}"`;
}

/** Identity and version of one object. */
export interface ObjectIdentity {
  readonly uid: string;
  /** `''` for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
}

/** Reads an object's identity; undefined when it has none and so is not an object. */
export function identify(object: unknown): ObjectIdentity | undefined {
  const metadata = metadataOf(object);
  const { uid, namespace = '', name, resourceVersion } = metadata;
  if (typeof uid !== 'string' || uid === '') return undefined;
  if (typeof name !== 'string' || typeof namespace !== 'string') return undefined;
  if (typeof resourceVersion !== 'string' || resourceVersion === '') return undefined;
  return { uid, namespace, name, resourceVersion };
}

/** The `metadata` of an object or a list; empty when there is none. */
export function metadataOf(object: unknown): RawObject {
  if (!isRecord(object)) return {};
  const metadata = object['metadata'];
  return isRecord(metadata) ? metadata : {};
}

/** Kubernetes' MicroTime: RFC 3339 in UTC with six decimals. `at`: milliseconds since 1970. */
export function microTime(at: number): string {
  return new Date(at).toISOString().replace('Z', '000Z');
}
