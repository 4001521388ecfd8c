import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { NamespaceChanges, UncertainMoment } from './host-namespace.ts';
import { CREATION_STEP_MS, REPORTING_DELAY_MS } from './sighting.ts';

/** A host namespace that was a tenant cluster's during `[from, to)`, because its syncer maps it. */
export interface NamespaceMapping {
  readonly namespace: string;
  readonly cluster: string;
  /** Milliseconds since the epoch; `to` is Infinity while it lasts. */
  readonly from: number;
  readonly to: number;
  /** How much earlier it may have begun, or later ended, if nobody observed it; milliseconds. */
  readonly uncertainFrom?: number;
  readonly uncertainTo?: number;
  /** Sequence number of when it was learnt; 0 when it comes from the journal. */
  readonly learntAs: number;
}

/** The result of one discovery pass; times are milliseconds since the epoch. */
export interface MappingPass {
  readonly clusters: readonly TenantCluster[];
  readonly at: number;
  /** Time of the previous pass; 0 for the first one. */
  readonly lastAt: number;
  /** Whether a tenant cluster is gone while objects of it may still exist. */
  readonly isLeaving: (cluster: string) => boolean;
  /** When the metadata of Namespaces changed. */
  readonly changes: NamespaceChanges;
  /** Returns the next sequence number. */
  readonly learn: () => number;
}

/**
 * Host namespaces of tenant clusters over time, besides those of their control planes
 * (docs/explanation/discovery.md#namespaces-that-a-syncer-maps).
 * 1. A new Namespace belongs to the tenant cluster since its creation, also where the watch
 *    reported it late (docs/explanation/metering.md#times).
 * 2. Any other change counts from when the Namespace's metadata changed.
 * 3. A change that nobody observed ends a mapping as early, and begins one as late, as is possible
 *    (docs/explanation/gaps.md#changes-that-nobody-saw).
 */
export class NamespaceMappings {
  /** In order of time. */
  readonly #byNamespace = new Map<string, NamespaceMapping[]>();
  /** It was restored from a journal, and no discovery pass has run since. */
  #isRestored = false;

  /** Applies a discovery pass; returns true if a mapping changed. */
  observe({ clusters, at, lastAt, isLeaving, changes, learn }: MappingPass): boolean {
    const found = new Map(
      clusters.flatMap(({ id, syncedNamespaces = [] }) =>
        syncedNamespaces.map(({ name, createdAt }) => [name, { cluster: id, createdAt }] as const),
      ),
    );
    let changed = false;
    const goneAt = (namespace: string): UncertainMoment => {
      const nobodyKnows = this.#isRestored ? lastAt : at;
      const { at: until, uncertain } = changes.statedUntil(namespace, lastAt) ?? {
        at: nobodyKnows,
        uncertain: at - nobodyKnows,
      };
      return until < at
        ? { at: until, uncertain: Math.min(uncertain, at - until) }
        : { at, uncertain: 0 };
    };
    for (const { namespace, cluster } of this.#open()) {
      // Mappings of a tenant cluster that is gone stay while objects of it exist.
      if (found.has(namespace) || isLeaving(cluster)) continue;
      this.#end(namespace, goneAt(namespace));
      changed = true;
    }
    for (const [namespace, { cluster, createdAt }] of found) {
      const before = this.#openOf(namespace);
      if (before?.cluster === cluster) continue;
      const newest = changes.statedSince(namespace);
      const earliest = newest === undefined ? lastAt : this.#trustedFrom(namespace, lastAt);
      const isNew = createdAt + CREATION_STEP_MS > earliest && newest?.always !== false;
      const isStated = newest !== undefined && newest.at > lastAt && newest.at <= at;
      const begun = isStated ? newest : { at, uncertain: 0 };
      const from = isNew ? Math.min(Math.max(createdAt, earliest), at) : begun.at;
      const gone = goneAt(namespace);
      this.#end(namespace, gone.at <= from ? gone : { at: from, uncertain: 0 });
      const uncertainFrom = isNew || begun.uncertain === 0 ? undefined : begun.uncertain;
      this.#add({
        namespace,
        cluster,
        from,
        to: Infinity,
        learntAs: learn(),
        uncertainFrom,
      });
      changed = true;
    }
    this.#isRestored = false;
    return changed;
  }

  /** Mappings of a namespace during `[from, to)`, in order. */
  during(namespace: string, from: number, to: number): readonly NamespaceMapping[] {
    const mappings = this.#byNamespace.get(namespace) ?? [];
    return mappings.filter((mapping) => mapping.from < to && mapping.to > from);
  }

  /** The mapped namespaces of a tenant cluster, or those that it had when it went. */
  of(cluster: string): readonly string[] {
    const own = this.#open().filter((mapping) => mapping.cluster === cluster);
    return own.map(({ namespace }) => namespace);
  }

  learntAfter(sequence: number): readonly NamespaceMapping[] {
    return [...this.#byNamespace.values()].flat().filter(({ learntAs }) => learntAs > sequence);
  }

  /** Ends the mappings of a tenant cluster: no object of it is left. */
  release(cluster: string, at: number): void {
    for (const namespace of this.of(cluster)) this.#end(namespace, { at, uncertain: 0 });
  }

  /** Forgets mappings that ended before `horizon`, and those of unknown tenant clusters. */
  prune(horizon: number, isKnown: (cluster: string) => boolean): void {
    for (const [namespace, mappings] of this.#byNamespace) {
      const remaining = mappings.filter(({ to, cluster }) => to > horizon && isKnown(cluster));
      if (remaining.length === 0) this.#byNamespace.delete(namespace);
      else if (remaining.length < mappings.length) this.#byNamespace.set(namespace, remaining);
    }
  }

  /** All mappings by tenant cluster. */
  byCluster(): ReadonlyMap<string, readonly NamespaceMapping[]> {
    return Map.groupBy([...this.#byNamespace.values()].flat(), ({ cluster }) => cluster);
  }

  clear(): void {
    this.#byNamespace.clear();
  }

  restore(mappings: readonly NamespaceMapping[]): void {
    this.#isRestored = true;
    for (const mapping of mappings.toSorted((a, b) => a.from - b.from)) this.#add(mapping);
  }

  /**
   * Returns how far back the creation of a newly found Namespace is trusted. The watch may report
   * it with a delay after the previous pass. Before that, another Namespace of the name may have
   * been a tenant cluster's.
   */
  #trustedFrom(namespace: string, lastAt: number): number {
    const last = this.#byNamespace.get(namespace)?.at(-1);
    const trusted = lastAt - REPORTING_DELAY_MS;
    return last === undefined ? trusted : Math.min(Math.max(trusted, last.to), lastAt);
  }

  #open(): readonly NamespaceMapping[] {
    return [...this.#byNamespace.values()].flatMap((mappings) => {
      const last = mappings.at(-1);
      return last === undefined || last.to < Infinity ? [] : [last];
    });
  }

  #openOf(namespace: string): NamespaceMapping | undefined {
    const last = this.#byNamespace.get(namespace)?.at(-1);
    return last === undefined || last.to < Infinity ? undefined : last;
  }

  #add(mapping: NamespaceMapping): void {
    const before = this.#byNamespace.get(mapping.namespace) ?? [];
    this.#byNamespace.set(mapping.namespace, [...before, mapping]);
  }

  #end(namespace: string, { at, uncertain }: UncertainMoment): void {
    const open = this.#openOf(namespace);
    if (open === undefined) return;
    const before = this.#byNamespace.get(namespace)?.slice(0, -1) ?? [];
    const uncertainTo = uncertain > 0 ? uncertain : undefined;
    const ended = open.from < at ? [{ ...open, to: at, uncertainTo }] : [];
    this.#byNamespace.set(namespace, [...before, ...ended]);
  }
}
