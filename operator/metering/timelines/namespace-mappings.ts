import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { NamespaceChanges, UncertainMoment } from './host-namespace.ts';
import { CREATION_STEP_MS, REPORTING_DELAY_MS } from './sighting.ts';

/** A host namespace that was one tenant cluster's during `[from, to)`, because its syncer had mapped it. */
export interface NamespaceMapping {
  readonly namespace: string;
  /** Id of the tenant cluster. */
  readonly cluster: string;
  /** Milliseconds since the epoch; `to` is infinite while it holds. */
  readonly from: number;
  readonly to: number;
  /** How much earlier it may have begun, and how much later ended, where nobody saw that; milliseconds. */
  readonly unsureFrom?: number;
  readonly unsureTo?: number;
  /** Counts up with everything that is learnt; 0 when it came out of the journal. */
  readonly learntAs: number;
}

/** What a discovery round found, and when; milliseconds since the epoch. */
export interface MappingPass {
  readonly clusters: readonly TenantCluster[];
  readonly at: number;
  /** The round before; 0 when this is the first one. */
  readonly lastAt: number;
  /** Whether a tenant cluster is gone while objects of it may be there. */
  readonly isLeaving: (cluster: string) => boolean;
  /** When Namespaces changed what they say. */
  readonly changes: NamespaceChanges;
  /** Gives the number of what is learnt next. */
  readonly learn: () => number;
}

/**
 * Which host namespaces belonged to which tenant cluster, from when to when, besides those of their
 * control planes (docs/explanation/discovery.md#namespaces-that-a-syncer-maps). A Namespace that is new was a tenant
 * cluster's since its creation, also where a watch told of it late (docs/explanation/metering.md#times). Every other
 * change counts from when the Namespace changed what it says of itself; where nobody saw that, it ends a
 * mapping as early and begins one as late as that may have been (docs/explanation/gaps.md#changes-that-nobody-saw).
 */
export class NamespaceMappings {
  /** In the order of time. */
  readonly #byNamespace = new Map<string, NamespaceMapping[]>();
  /** It has come out of a journal, and no round has looked since. */
  #isRestored = false;

  /** Gives whether anything has changed. */
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
      // Those of a tenant cluster that is gone stay its own while something of it is there.
      if (found.has(namespace) || isLeaving(cluster)) continue;
      this.#end(namespace, goneAt(namespace));
      changed = true;
    }
    for (const [namespace, { cluster, createdAt }] of found) {
      const before = this.#openOf(namespace);
      if (before?.cluster === cluster) continue;
      const says = changes.saysSince(namespace);
      const earliest = says === undefined ? lastAt : this.#trustedFrom(namespace, lastAt);
      const isNew = createdAt + CREATION_STEP_MS > earliest && says?.always !== false;
      const isStated = says !== undefined && says.at > lastAt && says.at <= at;
      const begun = isStated ? says : { at, uncertain: 0 };
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
        unsureFrom: uncertainFrom,
      });
      changed = true;
    }
    this.#isRestored = false;
    return changed;
  }

  /** What a namespace was during `[from, to)`, in order. */
  during(namespace: string, from: number, to: number): readonly NamespaceMapping[] {
    const mappings = this.#byNamespace.get(namespace) ?? [];
    return mappings.filter((mapping) => mapping.from < to && mapping.to > from);
  }

  /** The namespaces that a tenant cluster has, or had when it went. */
  of(cluster: string): readonly string[] {
    const own = this.#open().filter((mapping) => mapping.cluster === cluster);
    return own.map(({ namespace }) => namespace);
  }

  learntAfter(sequence: number): readonly NamespaceMapping[] {
    return [...this.#byNamespace.values()].flat().filter(({ learntAs }) => learntAs > sequence);
  }

  /** Ends what a tenant cluster has: nothing of it is there any more. */
  release(cluster: string, at: number): void {
    for (const namespace of this.of(cluster)) this.#end(namespace, { at, uncertain: 0 });
  }

  /** Forgets what ended before `horizon`, and what is of tenant clusters that nobody knows any more. */
  prune(horizon: number, isKnown: (cluster: string) => boolean): void {
    for (const [namespace, mappings] of this.#byNamespace) {
      const stored = mappings.filter(({ to, cluster }) => to > horizon && isKnown(cluster));
      if (stored.length === 0) this.#byNamespace.delete(namespace);
      else if (stored.length < mappings.length) this.#byNamespace.set(namespace, stored);
    }
  }

  /** All of them, by tenant cluster. */
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
   * How far back the creation of a Namespace is believed that the round before did not find: the watch may
   * have told of it later than that round looked. Until then another one of its name may have been a tenant cluster's.
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
    const ended = open.from < at ? [{ ...open, to: at, unsureTo: uncertainTo }] : [];
    this.#byNamespace.set(namespace, [...before, ...ended]);
  }
}
