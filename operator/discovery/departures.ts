import type { Projected } from '../kubernetes/source.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';
import type { HostObjects, TenantObject } from './tenant-source.ts';
import type { ControlPlaneWorkload, PlatformInstance } from './vcluster/views.ts';
import type { HostNamespace } from './views.ts';

/** Last state of a deleted object by which a tenant cluster or its namespace was found. */
export type Departed =
  | { readonly kind: 'workload'; readonly last: ControlPlaneWorkload }
  | { readonly kind: 'instance'; readonly last: PlatformInstance }
  | { readonly kind: 'namespace'; readonly last: HostNamespace }
  | { readonly kind: 'object'; readonly of: TenantSourceName; readonly last: TenantObject };

/** The watched objects that a discovery pass reads. */
export type WatchedObjects = Pick<
  HostObjects,
  'workloads' | 'instances' | 'namespaces' | 'namespace' | 'objects'
>;

/** More between two passes are unlikely; then the oldest are dropped. */
const MOST_DEPARTED = 10_000;

/**
 * Objects that the watches reported deleted since the last pass. A pass sees only the present, and
 * fails while a watch fails. Without these it would miss what appeared and vanished in between
 * (docs/explanation/discovery.md#how-tenant-clusters-are-found).
 */
export class Departures {
  readonly #departed = new Set<Departed>();

  add(departed: Departed): void {
    this.#departed.add(departed);
    const [oldest] = this.#departed;
    if (this.#departed.size > MOST_DEPARTED && oldest) this.#departed.delete(oldest);
  }

  /** Oldest first. */
  list(): readonly Departed[] {
    return [...this.#departed];
  }

  /** Removes departures that a pass has read. */
  forget(looked: readonly Departed[]): void {
    for (const departed of looked) this.#departed.delete(departed);
  }
}

/**
 * The watched objects with the departed ones added. If another object of the same kind has taken a
 * name, that one counts.
 */
export function beforeDeparting(
  watched: WatchedObjects,
  departed: readonly Departed[],
): WatchedObjects {
  const workloads = departed.flatMap((one) => (one.kind === 'workload' ? one.last : []));
  const instances = departed.flatMap((one) => (one.kind === 'instance' ? one.last : []));
  const namespaces = departed.flatMap((one) => (one.kind === 'namespace' ? one.last : []));
  const goneNamespaces = new Map(namespaces.map((last) => [last.name, last]));
  return {
    workloads: joined(watched.workloads, workloads),
    instances: joined(watched.instances, instances),
    namespaces: joined(watched.namespaces, namespaces),
    namespace: (name) => watched.namespace(name) ?? goneNamespaces.get(name),
    objects: (kind) => {
      const gone = departed.flatMap((one) =>
        one.kind === 'object' && one.of === kind ? one.last : [],
      );
      return joined([...watched.objects(kind)], gone);
    },
  };
}

/** Of several departed objects with one name, the last one counts. */
function joined<T extends Projected>(present: readonly T[], gone: readonly T[]): readonly T[] {
  if (gone.length === 0) return present;
  const taken = new Set(present.map(placeOf));
  const last = new Map(gone.map((one) => [placeOf(one), one]));
  return [...present, ...[...last.values()].filter((one) => !taken.has(placeOf(one)))];
}

function placeOf({ namespace, name }: Projected): string {
  return `${namespace}/${name}`;
}
