import type { HostNamespace } from '../views.ts';
import type { PlatformInstance } from './views.ts';

const PROJECT_PREFIXES = ['loft-p-', 'p-'] as const;

/** The platform keeps a project's instances in a namespace named for it, which its users cannot choose. */
export function projectOf(instance: PlatformInstance | undefined): string | undefined {
  if (instance === undefined) return undefined;
  const prefix = PROJECT_PREFIXES.find((known) => instance.namespace.startsWith(known));
  if (prefix !== undefined) return instance.namespace.slice(prefix.length) || undefined;
  return instance.metadata.labels['loft.sh/project'] || undefined;
}

/** What the platform wrote on the host namespace, so that the project is the same without its API. */
export function hostProject({ metadata: { labels } }: HostNamespace): string | undefined {
  return labels['loft.sh/vcluster-instance-project'] || labels['loft.sh/project'] || undefined;
}
