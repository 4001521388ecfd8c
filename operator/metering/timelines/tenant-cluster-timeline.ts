import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { type HostNamespaces, NamespaceChanges } from './host-namespace.ts';
import { type NamespaceMapping, NamespaceMappings } from './namespace-mappings.ts';
import { REPORTING_DELAY_MS } from './sighting.ts';
import { restoredRows, storedRows, type TenantClusterSnapshot } from './tenant-cluster-snapshot.ts';
import { type LeavingTenantCluster, leavingOf, tenanciesOf, type Tenancy } from './tenancy.ts';
import { type Span, spansAfter, spansBefore } from './timeline.ts';

/** A tenant cluster that was found after windows closed in which it already existed. */
export interface LateTenantCluster {
  readonly cluster: TenantCluster;
  readonly from: number;
}

/** A host namespace that was found to be a tenant cluster's after windows with it closed. */
export interface LateNamespace extends LateTenantCluster {
  readonly namespace: string;
}

interface Entry {
  spans: readonly Span<TenantCluster>[];
  /** From when it was gone until no object of it was left. */
  leaving?: Span<TenantCluster>;
  billingKey: string;
  /** Value of `sequence` when it was learnt; 0 when it comes from the journal. */
  readonly learntAs: number;
  /** Start of its existence, as known when it was learnt. */
  readonly existedFrom: number;
}

/**
 * The tenant clusters and their tenants over time. Dimensions are those that were valid during a
 * span, never looked up afterwards (docs/explanation/metering.md#lifetimes-not-samples).
 */
export class TenantClusterTimelines {
  readonly #entries = new Map<string, Entry>();
  readonly #mappings = new NamespaceMappings();
  readonly #namespaces: Pick<HostNamespaces, 'inNamespace'>;
  /** Entries by namespace; undefined after a change until the next look-up. */
  #index: ReadonlyMap<string, readonly Entry[]> | undefined;
  #current: readonly TenantCluster[] = [];
  #observedAt = 0;
  #sequence = 0;
  #version = 0;

  /**
   * `namespaces` dates the changes that a discovery pass finds; without it they date from the pass.
   */
  constructor(namespaces: Pick<HostNamespaces, 'inNamespace'> = { inNamespace: () => [] }) {
    this.#namespaces = namespaces;
  }

  /** The present tenant clusters. */
  get current(): readonly TenantCluster[] {
    return this.#current;
  }

  /** Tenant clusters that are gone, while objects of them may still exist. */
  get leaving(): readonly LeavingTenantCluster[] {
    return [...this.#entries.values()].flatMap(({ leaving }) =>
      leaving === undefined || leaving.to < Infinity ? [] : [leavingOf(leaving)],
    );
  }

  /** Increases with every new tenant cluster and every newly mapped namespace. */
  get sequence(): number {
    return this.#sequence;
  }

  /** Increases with every change, for the journal. */
  get version(): number {
    return this.#version;
  }

  /** When discovery last succeeded; 0 before the first time. */
  get observedAt(): number {
    return this.#observedAt;
  }

  /** Applies the result of a successful discovery pass. */
  observe(clusters: readonly TenantCluster[], at: number): void {
    this.#index = undefined;
    for (const cluster of clusters) this.#meet(cluster, at);
    const ids = new Set(clusters.map((cluster) => cluster.id));
    for (const [id, entry] of this.#entries) {
      const last = entry.spans.at(-1);
      if (ids.has(id) || last?.to !== Infinity) continue;
      entry.spans = spansBefore(entry.spans, at);
      if (leavesObjects(last.state)) entry.leaving = openSpan(last.state, at);
      this.#version += 1;
    }
    const learn = (): number => ++this.#sequence;
    const isLeaving = (id: string): boolean => this.#entries.get(id)?.leaving?.to === Infinity;
    const changes = new NamespaceChanges(this.#namespaces);
    const pass = { clusters, at, lastAt: this.#observedAt, isLeaving, changes, learn };
    if (this.#mappings.observe(pass)) this.#version += 1;
    this.#current = clusters;
    this.#observedAt = at;
  }

  /** A namespace's tenant clusters during `[from, to)`, in order, without empty stretches. */
  tenancies(namespace: string, from: number, to: number): readonly Tenancy[] {
    const inside = ({ state }: Span<TenantCluster>) => state.namespace === namespace;
    const entries = this.#inNamespace(namespace);
    const present = entries.flatMap(({ spans }) => spansWithin(spans, from, to).filter(inside));
    const leaving = entries.flatMap(({ leaving: span }) =>
      span === undefined ? [] : spansWithin([span], from, to).filter(inside),
    );
    for (const mapping of this.#mappings.during(namespace, from, to)) {
      const entry = this.#entries.get(mapping.cluster);
      if (entry === undefined) continue;
      const [start, end] = [Math.max(from, mapping.from), Math.min(to, mapping.to)];
      present.push(...spansWithin(entry.spans, start, end).map((span) => cut(span, mapping)));
      if (entry.leaving === undefined) continue;
      // The departure of the tenant cluster dates what it left behind.
      const left = { from: entry.leaving.from, to: mapping.to };
      leaving.push(...spansWithin([entry.leaving], start, end).map((span) => cut(span, left)));
    }
    return tenanciesOf(present, leaving, from, to);
  }

  /** All spans of tenant clusters during `[from, to)`. */
  during(from: number, to: number): readonly Span<TenantCluster>[] {
    return [...this.#entries.values()].flatMap(({ spans }) => spansWithin(spans, from, to));
  }

  /** The spans of one tenant cluster during `[from, to)`, in order. */
  statesOf(id: string, from: number, to: number): readonly Span<TenantCluster>[] {
    return spansWithin(this.#entries.get(id)?.spans ?? [], from, to);
  }

  /** Tenant clusters learnt after `sequence`, with the time since when they exist. */
  learntAfter(sequence: number): readonly LateTenantCluster[] {
    if (this.#sequence <= sequence) return [];
    return [...this.#entries.values()].flatMap(({ learntAs, spans, existedFrom }) => {
      const last = spans.at(-1);
      if (learntAs <= sequence || last === undefined) return [];
      return [{ cluster: last.state, from: existedFrom }];
    });
  }

  /** Mapped host namespaces learnt after `sequence`; for late usage. */
  mappedAfter(sequence: number): readonly LateNamespace[] {
    return this.#mappings.learntAfter(sequence).flatMap(({ cluster: id, namespace, from }) => {
      const { spans = [], leaving } = this.#entries.get(id) ?? {};
      const cluster = (spans.at(-1) ?? leaving)?.state;
      return cluster === undefined ? [] : [{ cluster, namespace, from }];
    });
  }

  /** Ends the leaving tenant clusters for which `hasObjects` is false. */
  release(hasObjects: (leaving: LeavingTenantCluster) => boolean, at: number): void {
    for (const [id, entry] of this.#entries) {
      const { leaving } = entry;
      if (leaving?.to !== Infinity || hasObjects(leavingOf(leaving))) continue;
      entry.leaving = { ...leaving, to: Math.max(at, leaving.from) };
      this.#mappings.release(id, at);
      this.#version += 1;
    }
  }

  /** Forgets what ended before `horizon`. */
  prune(horizon: number): void {
    this.#index = undefined;
    for (const [id, entry] of this.#entries) {
      entry.spans = spansAfter(entry.spans, horizon);
      if (entry.leaving !== undefined && entry.leaving.to <= horizon) delete entry.leaving;
      if (entry.spans.length === 0 && entry.leaving === undefined) this.#entries.delete(id);
    }
    this.#mappings.prune(horizon, (id) => this.#entries.has(id));
  }

  snapshot(): TenantClusterSnapshot {
    const mappings = this.#mappings.byCluster();
    return [...this.#entries].flatMap(([id, { spans, leaving }]) =>
      storedRows({ spans, leaving, mappings: mappings.get(id) ?? [] }),
    );
  }

  /** Replaces everything by the content of a {@link snapshot}. */
  restore(snapshot: TenantClusterSnapshot, observedAt: number): void {
    this.#index = undefined;
    this.#entries.clear();
    this.#mappings.clear();
    this.#observedAt = observedAt;
    for (const [id, rows] of Map.groupBy(snapshot, ({ cluster }) => cluster.id)) {
      const { spans, leaving, mappings } = restoredRows(rows);
      const last = spans.at(-1) ?? leaving;
      if (last === undefined) continue;
      this.#entries.set(id, {
        spans,
        billingKey: billingKey(last.state),
        learntAs: 0,
        existedFrom: last.from,
        leaving,
      });
      this.#mappings.restore(mappings);
    }
    this.#current = snapshot
      .filter(({ to, leaving }) => to === null && leaving !== true)
      .map(({ cluster }) => cluster);
  }

  #meet(cluster: TenantCluster, at: number): void {
    const known = this.#entries.get(cluster.id);
    const open = known?.spans.at(-1)?.to === Infinity;
    const key = billingKey(cluster);
    if (known !== undefined && open && known.billingKey === key) {
      known.spans = withNamespaces(known.spans, cluster);
      return;
    }
    this.#version += 1;
    if (known !== undefined && open) {
      known.billingKey = key;
      known.spans = [...spansBefore(known.spans, at), openSpan(cluster, at)];
      return;
    }
    const earliest = Math.min(this.#begun(cluster, known?.spans.at(-1)?.to), at);
    // Until `at` the objects of its namespace were billed to the tenant that the Namespace names.
    const from = this.#isNamed(cluster.namespace, earliest, at) ? at : earliest;
    this.#sequence += 1;
    const left = known?.leaving;
    this.#entries.set(cluster.id, {
      spans: [...spansBefore(known?.spans ?? [], from), openSpan(cluster, from)],
      billingKey: key,
      learntAs: this.#sequence,
      existedFrom: from,
      ...(left === undefined || left.from >= from
        ? {}
        : { leaving: { ...left, to: Math.min(left.to, from) } }),
    });
  }

  /**
   * Returns since when a newly found tenant cluster exists. The watch may report it with a delay
   * after the previous pass, so its creation is trusted that far back, as for any object
   * (docs/explanation/metering.md#times). A tenant cluster that existed before begins no earlier
   * than its last end, `endedAt`.
   */
  #begun({ createdAt }: TenantCluster, endedAt = Number.NEGATIVE_INFINITY): number {
    const trustedFrom = Math.max(this.#observedAt - REPORTING_DELAY_MS, endedAt);
    return createdAt >= trustedFrom ? createdAt : this.#observedAt;
  }

  /** Whether a Namespace's metadata named a tenant at some time during `[from, to)`. */
  #isNamed(namespace: string, from: number, to: number): boolean {
    return this.#mappings.during(namespace, from, to).some(({ cluster }) => {
      const state = this.#entries.get(cluster)?.spans.at(-1)?.state;
      return state !== undefined && !leavesObjects(state);
    });
  }

  #inNamespace(namespace: string): readonly Entry[] {
    this.#index ??= Map.groupBy(
      this.#entries.values(),
      ({ spans, leaving }) => (spans[0] ?? leaving)?.state.namespace ?? '',
    );
    return this.#index.get(namespace) ?? [];
  }
}

/** The timelines of tenant clusters as meters read them. */
export type TenantClusterReader = Pick<
  TenantClusterTimelines,
  'current' | 'tenancies' | 'during' | 'statesOf' | 'learntAfter' | 'mappedAfter' | 'sequence'
>;

/**
 * Whether objects stay billed after the tenant cluster is gone. A namespace's objects are a
 * tenant's only while the Namespace names it
 * (docs/how-to/tenants/namespaces.md#what-is-billed-to-whom).
 */
function leavesObjects({ source }: TenantCluster): boolean {
  return source !== 'namespaces';
}

function spansWithin(
  spans: readonly Span<TenantCluster>[],
  from: number,
  to: number,
): readonly Span<TenantCluster>[] {
  return spans.filter((span) => span.from < to && span.to > from);
}

function cut(
  { from, to, state }: Span<TenantCluster>,
  within: Pick<NamespaceMapping, 'from' | 'to' | 'uncertainFrom' | 'uncertainTo'>,
): Span<TenantCluster> {
  const uncertainFrom = within.from > from ? within.uncertainFrom : undefined;
  const uncertainTo = within.to < to ? within.uncertainTo : undefined;
  const bounds = { from: Math.max(from, within.from), to: Math.min(to, within.to) };
  return { ...bounds, state, uncertainFrom, uncertainTo };
}

function openSpan(cluster: TenantCluster, from: number): Span<TenantCluster> {
  return { from, to: Infinity, state: cluster };
}

/** Returns the same spans, the last one with the namespaces that the syncer maps now. */
function withNamespaces(
  spans: readonly Span<TenantCluster>[],
  { syncedNamespaces }: TenantCluster,
): readonly Span<TenantCluster>[] {
  const last = spans.at(-1);
  if (last === undefined || last.state.syncedNamespaces === syncedNamespaces) return spans;
  const now = { ...last, state: { ...last.state, syncedNamespaces } };
  return [...spans.slice(0, -1), now];
}

/** Fields that change events, and so split a span; a new e-mail address does not. */
function billingKey(cluster: TenantCluster): string {
  const { namespace, name, tenant, project, tenantClass, excluded, machines, metering } = cluster;
  const { workloads, namespaceTenant } = cluster;
  const parts = [namespace, name, tenant, project, tenantClass, excluded, machines, metering];
  return JSON.stringify([...parts, workloads, namespaceTenant]);
}
