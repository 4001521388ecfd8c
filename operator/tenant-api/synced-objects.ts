import { createHash } from 'node:crypto';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Projected } from '../kubernetes/source.ts';
import type { ObjectLabels } from '../metering/timelines/object-labels.ts';

/** Looks up an object of the host cluster. */
export interface HostLookup {
  find(
    namespace: string,
    name: string,
  ): (Projected & { readonly labels: ObjectLabels }) | undefined;
}

const LONGEST_NAME = 63;
const STORED = 52;
const HASH_LENGTH = 10;

/** Returns the name that the syncer gives a tenant's object in the host namespace. */
export function syncedName({ namespace, name }: Projected, cluster: TenantCluster): string {
  const complete = `${name}-x-${namespace}-x-${cluster.name}`;
  if (complete.length <= LONGEST_NAME) return complete;
  const hash = createHash('sha256').update(complete).digest('hex');
  // A cut name must not end in a dot.
  return `${complete.slice(0, STORED)}-${hash.slice(0, HASH_LENGTH)}`.replaceAll('.-', '-');
}

/**
 * Returns a function that decides whether the host cluster has a copy of a tenant's object, and
 * bills it. The first decision stays: the copy ends some moments before or after the tenant's
 * object.
 */
export function createSyncedObjects(
  host: HostLookup,
  cluster: () => TenantCluster | undefined,
): (object: Projected) => boolean {
  const synced = new Set<string>();
  return (object) => {
    if (synced.has(object.uid)) return true;
    const owner = cluster();
    if (owner === undefined || owner.source === 'external') return false;
    const isHere =
      host.find(owner.namespace, syncedName(object, owner))?.labels.managedBy === owner.name;
    if (!isHere && !isInMapped(host, object, owner)) return false;
    if (synced.size >= MOST) synced.clear();
    synced.add(object.uid);
    return true;
  };
}

/** Returns the tenant cluster whose syncer made this object of the host cluster, or undefined. */
export function syncedBy(
  object: Projected & { readonly labels: ObjectLabels },
  clusters: readonly TenantCluster[],
): TenantCluster | undefined {
  return clusters.find(
    ({ namespace, name, syncedNamespaces = [] }) =>
      (namespace === object.namespace && name === object.labels.managedBy) ||
      syncedNamespaces.some((synced) => synced.name === object.namespace),
  );
}

/**
 * Returns whether the object has a copy in a mapped namespace, where objects keep their names
 * (docs/explanation/discovery.md#namespaces-that-a-syncer-maps).
 */
function isInMapped(host: HostLookup, object: Projected, owner: TenantCluster): boolean {
  return (owner.syncedNamespaces ?? []).some(
    ({ name }) => host.find(name, object.name)?.labels.virtualNamespace === object.namespace,
  );
}

/** Above the limit of objects for one tenant cluster. */
const MOST = 100_000;
