import { type HostNamespace, hostNamespace } from '../../discovery/views.ts';
import type { ResumePoint } from '../../kubernetes/reflector-options.ts';
import type { Projection } from '../../kubernetes/source.ts';
import type { Resume } from './journal.ts';

/** A Namespace with the label prefix that selected its annotations. */
export interface KnownNamespace extends HostNamespace {
  readonly labelPrefix: string;
}

/** Projects every Namespace. */
export function knownNamespace(labelPrefix: string): Projection<KnownNamespace> {
  const read = hostNamespace(labelPrefix);
  return (object) => {
    const namespace = read(object);
    return namespace && { ...namespace, labelPrefix };
  };
}

/**
 * Where the watch of Namespaces resumes. If another label prefix was in force, the watch lists
 * again, because unchanged objects are not sent again.
 */
export function resumeNamespaces(
  resume: Resume<HostNamespace> | undefined,
  labelPrefix: string,
): ResumePoint<KnownNamespace> | undefined {
  if (resume === undefined) return undefined;
  const { objects, knownAt } = resume;
  const known = objects.filter((each): each is KnownNamespace => 'labelPrefix' in each);
  const isCurrent =
    known.length === objects.length && known.every((each) => each.labelPrefix === labelPrefix);
  return isCurrent ? { ...resume, objects: known } : { knownAt, objects: known };
}
