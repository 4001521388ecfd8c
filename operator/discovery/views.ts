import type { Projected, Projection, RawObject } from '../kubernetes/source.ts';
import { recordAt, textAt, textsAt, timeAt } from './object-reading.ts';

/** Labels, and the annotations under the label prefix or of the operator's own. */
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

/** Takes every Namespace. */
export function hostNamespace(labelPrefix: string): Projection<HostNamespace> {
  return (object) => {
    const identity = identityOf(object);
    if (identity === undefined) return undefined;
    const metadata = metadataOf(object, labelPrefix);
    return { ...identity, metadata, createdAt: createdAtOf(object) };
  };
}

/** What every object has; undefined when it is none. */
export function identityOf(object: RawObject): Projected | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  return { uid, name, namespace: textAt(metadata, 'namespace') ?? '' };
}

/** What the operator itself writes has this prefix, whatever LABEL_PREFIX is. */
const OWN_PREFIX = 'meterfeed.io/';

/** Labels, and the annotations that are anybody's business here. */
export function metadataOf(object: RawObject, labelPrefix: string): Metadata {
  const metadata = recordAt(object, 'metadata');
  return {
    labels: textsAt(metadata, 'labels'),
    annotations: textsAt(
      metadata,
      'annotations',
      (key) => key.startsWith(`${labelPrefix}/`) || key.startsWith(OWN_PREFIX),
    ),
  };
}

/** Milliseconds since the epoch. */
export function createdAtOf(object: RawObject): number {
  return timeAt(recordAt(object, 'metadata'), 'creationTimestamp');
}
