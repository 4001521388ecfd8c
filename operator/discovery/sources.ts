import type { Projected, Source } from '../kubernetes/source.ts';
import type { ControlPlaneWorkload, PlatformInstance } from './vcluster/views.ts';
import type { HostNamespace } from './views.ts';

/** The watches that discovery reads: one per kind, cluster-wide or for WATCH_NAMESPACES. */
export interface DiscoverySources {
  readonly statefulSets: Source<ControlPlaneWorkload>;
  readonly deployments: Source<ControlPlaneWorkload>;
  readonly namespaces: Source<HostNamespace>;
  /** Optional: its resource type may be absent. */
  readonly instances: Source<PlatformInstance>;
}

/** Whether what the sources hold can be relied on, all of it. */
export type SourcesState =
  | { readonly kind: 'whole'; readonly platform: 'present' | 'absent' }
  | { readonly kind: 'failed'; readonly reason: string };

/**
 * Only a platform API that is not there at all is the specified fallback; any other failure of any
 * source means that nothing may be concluded from what is missing.
 */
export function sourcesState(sources: DiscoverySources): SourcesState {
  const { statefulSets, deployments, namespaces, instances } = sources;
  const reasons = [statefulSets, deployments, namespaces].flatMap((source) => {
    const failures = failuresOf(source);
    return source.health().state === 'absent' ? [`${nameOf(source)}: not served`] : failures;
  });
  const all = [...reasons, ...failuresOf(instances)];
  if (all.length > 0) return { kind: 'failed', reason: all.join('; ') };
  const platform = instances.health().state === 'absent' ? 'absent' : 'present';
  return { kind: 'whole', platform };
}

function failuresOf<T extends Projected>(source: Source<T>): readonly string[] {
  const { state, reason } = source.health();
  if (state === 'starting') return [`${nameOf(source)}: not listed yet`];
  return state === 'failing' ? [`${nameOf(source)}: ${reason ?? 'cannot be read'}`] : [];
}

function nameOf<T extends Projected>({ resource }: Source<T>): string {
  return resource.plural;
}
