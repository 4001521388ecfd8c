import { resourceName } from '../kubernetes/resource.ts';
import type { Projected, Source } from '../kubernetes/source.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';
import type { TenantObject } from './tenant-source.ts';
import type { ControlPlaneWorkload, PlatformInstance } from './vcluster/views.ts';
import type { HostNamespace } from './views.ts';

/** The watches that discovery reads, one per kind: cluster-wide or for WATCH_NAMESPACES. */
export interface DiscoverySources {
  readonly statefulSets: Source<ControlPlaneWorkload>;
  readonly deployments: Source<ControlPlaneWorkload>;
  readonly namespaces: Source<HostNamespace>;
  /** Optional: its resource type may be absent. */
  readonly instances: Source<PlatformInstance>;
  /**
   * The custom resources of other kinds of tenants, by kind. Each is watched while settings name
   * its kind.
   */
  readonly tenantObjects: ReadonlyMap<TenantSourceName, Source<TenantObject>>;
}

/** Whether all sources are complete. */
export type SourcesState =
  | { readonly kind: 'complete'; readonly platform: 'present' | 'absent' }
  | { readonly kind: 'failed'; readonly reason: string };

/**
 * Only an absent platform API is the specified fallback. After any other failure, also of a
 * configured kind of tenants, an object that is missing may still exist.
 */
export function sourcesState(
  sources: DiscoverySources,
  kinds: readonly TenantSourceName[],
): SourcesState {
  const { statefulSets, deployments, namespaces, instances } = sources;
  const reasons = [
    ...[statefulSets, deployments, namespaces].flatMap((source) => missing(source)),
    ...tenantObjectsOf(sources, kinds).flatMap((source) =>
      missing(source, resourceName(source.resource)),
    ),
    ...failuresOf(instances),
  ];
  if (reasons.length > 0) return { kind: 'failed', reason: reasons.join('; ') };
  const platform = instances.health().state === 'absent' ? 'absent' : 'present';
  return { kind: 'complete', platform };
}

/** The watches of custom resources of some kinds of tenants. */
export function tenantObjectsOf(
  { tenantObjects }: Pick<DiscoverySources, 'tenantObjects'>,
  kinds: readonly TenantSourceName[],
): readonly Source<TenantObject>[] {
  return kinds.flatMap((kind) => tenantObjects.get(kind) ?? []);
}

type Watch = Pick<Source<Projected>, 'health' | 'resource'>;

function missing(source: Watch, name = source.resource.plural): readonly string[] {
  return source.health().state === 'absent' ? [`${name}: not served`] : failuresOf(source, name);
}

function failuresOf(source: Watch, name = source.resource.plural): readonly string[] {
  const { state, reason } = source.health();
  if (state === 'starting') return [`${name}: not listed yet`];
  return state === 'failing' ? [`${name}: ${reason ?? 'cannot be read'}`] : [];
}
