import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Projected, Projection, RawObject } from '../../kubernetes/source.ts';
import { type ObjectLabels, shareLabels } from './object-labels.ts';
import type { Api } from './shared-values.ts';
import type { TenantClusterReader } from './tenant-cluster-timeline.ts';

/**
 * Returns a projection of objects from a tenant cluster's own API. All of them belong to that
 * tenant cluster, under their own namespace. The labels that identify owners on the host cluster
 * are removed: the tenant could set them to anything. Values are shared within `api` only.
 */
export function insideTenant<T extends Projected & { readonly labels: ObjectLabels }>(
  project: (object: RawObject, api: Api) => T | undefined,
  api: Api = {},
): Projection<T> {
  return (object) => {
    const projected = project(object, api);
    if (projected === undefined) return undefined;
    const {
      namespace: virtualNamespace,
      labels: { queue },
    } = projected;
    const none = { managedBy: undefined, app: undefined, release: undefined };
    const labels = shareLabels({ ...none, virtualNamespace, queue }, api);
    return { ...projected, labels };
  };
}

/** Returns the timelines of one tenant cluster alone, valid in every namespace of its own API. */
export function tenancyOf(all: TenantClusterReader, id: string): TenantClusterReader {
  const isOwn = (cluster: TenantCluster): boolean => cluster.id === id;
  return {
    get current() {
      return all.current.filter(isOwn);
    },
    get sequence() {
      return all.sequence;
    },
    statesOf: (of, from, to) => all.statesOf(of, from, to),
    tenancies: (_namespace, from, to) =>
      all.statesOf(id, from, to).map((span) => ({
        from: Math.max(from, span.from),
        to: Math.min(to, span.to),
        clusters: [span.state],
      })),
    during: (from, to) => all.statesOf(id, from, to),
    learntAfter: (sequence) => all.learntAfter(sequence).filter(({ cluster }) => isOwn(cluster)),
    // Its objects are in none of the host's namespaces.
    mappedAfter: () => [],
  };
}
