import type { Projected } from '../kubernetes/source.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';
import type { HostObjects, TenantObject } from './tenant-source.ts';
import type { ControlPlaneWorkload, PlatformInstance } from './vcluster/views.ts';
import type { HostNamespace } from './views.ts';

/** An object that is gone and by which a tenant cluster, or a namespace of it, was found; as it was last seen. */
export type Departed =
  | { readonly kind: 'workload'; readonly last: ControlPlaneWorkload }
  | { readonly kind: 'instance'; readonly last: PlatformInstance }
  | { readonly kind: 'namespace'; readonly last: HostNamespace }
  | { readonly kind: 'object'; readonly of: TenantSourceName; readonly last: TenantObject };

/** What the watches hold, of all that a round looks at. */
export type HeldObjects = Pick<
  HostObjects,
  'workloads' | 'instances' | 'namespaces' | 'namespace' | 'objects'
>;

/** More than these between two rounds are no uninstalling any more; the oldest are forgotten. */
const MOST_DEPARTED = 10_000;

/**
 * What watches have told is gone since a round last looked. A round shows what there is at one moment only, and
 * none succeeds while a watch fails: what came and went in between is found by these
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

  /** A round has looked at them. */
  forget(looked: readonly Departed[]): void {
    for (const departed of looked) this.#departed.delete(departed);
  }
}

/** What was held before some of it went. Where another object of the same kind has taken a name, that one counts. */
export function beforeDeparting(held: HeldObjects, departed: readonly Departed[]): HeldObjects {
  const workloads = departed.flatMap((one) => (one.kind === 'workload' ? one.last : []));
  const instances = departed.flatMap((one) => (one.kind === 'instance' ? one.last : []));
  const namespaces = departed.flatMap((one) => (one.kind === 'namespace' ? one.last : []));
  const goneNamespaces = new Map(namespaces.map((last) => [last.name, last]));
  return {
    workloads: joined(held.workloads, workloads),
    instances: joined(held.instances, instances),
    namespaces: joined(held.namespaces, namespaces),
    namespace: (name) => held.namespace(name) ?? goneNamespaces.get(name),
    objects: (kind) => {
      const gone = departed.flatMap((one) =>
        one.kind === 'object' && one.of === kind ? one.last : [],
      );
      return joined([...held.objects(kind)], gone);
    },
  };
}

/** Of several that have gone under one name the last one counts. */
function joined<T extends Projected>(present: readonly T[], gone: readonly T[]): readonly T[] {
  if (gone.length === 0) return present;
  const taken = new Set(present.map(placeOf));
  const last = new Map(gone.map((one) => [placeOf(one), one]));
  return [...present, ...[...last.values()].filter((one) => !taken.has(placeOf(one)))];
}

function placeOf({ namespace, name }: Projected): string {
  return `${namespace}/${name}`;
}
