import { isRawObject } from './outcome.ts';
import type { RawObject } from './source.ts';

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
  if (!isRawObject(object)) return {};
  const metadata = object['metadata'];
  return isRawObject(metadata) ? metadata : {};
}
