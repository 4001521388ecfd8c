import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Projected, Projection, RawObject } from '../../kubernetes/source.ts';
import { type ObjectLabels, shareLabels } from './object-labels.ts';
import type { Api } from './shared-values.ts';
import type { TenantClusterTimelines } from './tenant-cluster-timeline.ts';

/**
 * A projection of objects that a tenant cluster's own API shows. They are all that tenant cluster's,
 * in the namespace that they are in: labels by which objects of the host cluster are told apart mean
 * nothing there, and the tenant could set them to anything. Values are shared within that `api` only.
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

/** The tenant clusters as they are seen from inside of one of them: it alone, in every namespace. */
export function tenancyOf(all: TenantClusterTimelines, id: string): TenantClusterTimelines {
  const isOwn = (cluster: TenantCluster): boolean => cluster.id === id;
  return {
    observe: (clusters, at) => all.observe(clusters, at),
    release: (holdsObjects, at) => all.release(holdsObjects, at),
    prune: (horizon) => all.prune(horizon),
    snapshot: () => all.snapshot(),
    restore: (snapshot, at) => all.restore(snapshot, at),
    statesOf: (of, from, to) => all.statesOf(of, from, to),
    get current() {
      return all.current.filter(isOwn);
    },
    get leaving() {
      return all.leaving.filter(({ cluster }) => isOwn(cluster));
    },
    get sequence() {
      return all.sequence;
    },
    get version() {
      return all.version;
    },
    get observedAt() {
      return all.observedAt;
    },
    tenancies: (_namespace, from, to) =>
      all.statesOf(id, from, to).map((span) => ({
        from: Math.max(from, span.from),
        to: Math.min(to, span.to),
        clusters: [span.state],
      })),
    during: (from, to) => all.statesOf(id, from, to),
    learntAfter: (sequence) => all.learntAfter(sequence).filter(({ cluster }) => isOwn(cluster)),
    // What it has inside is in none of the host's namespaces.
    mappedAfter: () => [],
  };
}
