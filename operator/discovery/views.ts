import type { Projected, Projection, RawObject } from '../kubernetes/source.ts';
import { compareBytewise } from '../model/bytewise.ts';
import { identityOf, recordAt, timeAt } from '../kubernetes/raw-fields.ts';

/**
 * Labels, and the annotations under the label prefix or `meterfeed.io/`. Of a Namespace also each
 * annotation that may be a name.
 */
export interface Metadata {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** A Namespace of the host cluster. */
export interface HostNamespace extends Projected {
  readonly metadata: Metadata;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** The longest annotation of a Namespace that may name a tenant: the longest customer id. */
export const LONGEST_NAME = 128;

/** Projects every Namespace. The setting of the annotation that names a tenant may change. */
export function hostNamespace(labelPrefix: string): Projection<HostNamespace> {
  return (object) => {
    const identity = identityOf(object);
    if (identity === undefined) return undefined;
    const mayName = (_key: string, value: string) => value.length <= LONGEST_NAME;
    const metadata = metadataOf(object, labelPrefix, mayName);
    return { ...identity, metadata, createdAt: createdAtOf(object) };
  };
}

/** Prefix of what the operator writes itself, whatever LABEL_PREFIX is. */
const OWN_PREFIX = 'meterfeed.io/';

/** Labels, and the annotations under the prefixes or that `alsoWanted` accepts. */
export function metadataOf(
  object: RawObject,
  labelPrefix: string,
  alsoWanted: (key: string, value: string) => boolean = () => false,
): Metadata {
  const metadata = recordAt(object, 'metadata');
  return {
    labels: textsAt(metadata, 'labels'),
    annotations: textsAt(
      metadata,
      'annotations',
      (key, value) =>
        key.startsWith(`${labelPrefix}/`) || key.startsWith(OWN_PREFIX) || alsoWanted(key, value),
    ),
  };
}

/** Milliseconds since the epoch; 0 if there is no time. */
export function createdAtOf(object: RawObject): number {
  return timeAt(recordAt(object, 'metadata'), 'creationTimestamp') ?? 0;
}

/** The text entries of a label or annotation map that `wanted` accepts. */
export function textsAt(
  parent: RawObject,
  key: string,
  wanted: (key: string, value: string) => boolean = () => true,
): Readonly<Record<string, string>> {
  const entries = Object.entries(recordAt(parent, key));
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => {
      return typeof entry[1] === 'string' && wanted(entry[0], entry[1]);
    }),
  );
}

interface Aged {
  readonly createdAt: number;
  /** Empty or absent for objects without a namespace. */
  readonly namespace?: string;
  readonly name: string;
}

/** Compares objects for the order in which they were created: the oldest is first. */
export function byAge(a: Aged, b: Aged): number {
  if (a.createdAt !== b.createdAt) return a.createdAt - b.createdAt;
  return compareBytewise(a.namespace ?? '', b.namespace ?? '') || compareBytewise(a.name, b.name);
}
