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
  const rest = [name, subresource]
    .filter((part) => part !== undefined)
    .map((part) => `/${encodeURIComponent(part)}`)
    .join('');
  return `${root}${scope}/${resource.plural}${rest}`;
}

/** As kubectl names it: `pods`, `deployments.apps`. */
export function resourceName(resource: ApiResource): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;
}

/** For messages: the resource's name, and the namespace when it is narrowed to one. */
export function describeResource(resource: ApiResource): string {
  const name = resourceName(resource);
  return resource.namespace === undefined ? name : `${name} in namespace "${resource.namespace}"`;
}

/** What makes an object this object, in this version. */
export interface ObjectIdentity {
  readonly uid: string;
  /** `''` for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
}

/** Undefined when the object has no identity, and so is not one. */
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

/** Kubernetes' MicroTime: RFC 3339 in UTC with six decimals. `at` is milliseconds since the epoch. */
export function microTime(at: number): string {
  return new Date(at).toISOString().replace('Z', '000Z');
}
