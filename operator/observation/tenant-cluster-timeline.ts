import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { type Span, spansAfter, spansBefore, splitAtEdges } from './timeline.ts';

/** The tenant clusters of one namespace during one stretch in which none of them changed. */
export interface Tenancy {
  readonly from: number;
  readonly to: number;
  readonly clusters: readonly TenantCluster[];
}

/** A tenant cluster that became known after windows in which it already existed had been closed. */
export interface LateTenantCluster {
  readonly cluster: TenantCluster;
  readonly from: number;
}

/**
 * Which tenant clusters there were, and whom each was billed to, from when to when. Dimensions are
 * those valid during a span, never looked up afterwards (docs/metering.md#lifetimes-not-samples).
 */
export interface TenantClusterTimelines {
  /** What a successful discovery round found. */
  observe(clusters: readonly TenantCluster[], at: number): void;
  /** The tenant clusters there are. */
  readonly current: readonly TenantCluster[];
  /** What a namespace held during `[from, to)`, in order; stretches without tenant clusters are left out. */
  tenancies(namespace: string, from: number, to: number): readonly Tenancy[];
  /** Every tenant cluster that existed during `[from, to)`, a value for each of its states. */
  during(from: number, to: number): readonly Span<TenantCluster>[];
  /** The states of one tenant cluster during `[from, to)`, in order. */
  statesOf(id: string, from: number, to: number): readonly Span<TenantCluster>[];
  /** Those learnt after `sequence`, with the moment since when they exist; for late usage. */
  learntAfter(sequence: number): readonly LateTenantCluster[];
  /** Counts up with every tenant cluster that is new. */
  readonly sequence: number;
  /** Counts up with every change, for the journal. */
  readonly version: number;
  /** When discovery last succeeded; 0 before the first time. */
  readonly observedAt: number;
  /** Forgets what ended before `horizon`. */
  prune(horizon: number): void;
  snapshot(): TenantClusterSnapshot;
  restore(snapshot: TenantClusterSnapshot, observedAt: number): void;
}

/** All of it as plain JSON values; `to` null while a state holds. */
export type TenantClusterSnapshot = readonly {
  readonly from: number;
  readonly to: number | null;
  readonly cluster: TenantCluster;
}[];

interface Entry {
  spans: readonly Span<TenantCluster>[];
  billingKey: string;
  /** The value of `sequence` when it was learnt; 0 when it came out of the journal. */
  readonly learntAs: number;
  /** Since when it existed when it was learnt. */
  readonly existedFrom: number;
}

export function createTenantClusterTimelines(): TenantClusterTimelines {
  return new TenantClusterHistory();
}

class TenantClusterHistory implements TenantClusterTimelines {
  readonly #entries = new Map<string, Entry>();
  /** By namespace; undefined after a change, until somebody asks. */
  #index: ReadonlyMap<string, readonly Entry[]> | undefined;
  #current: readonly TenantCluster[] = [];
  #observedAt = 0;
  #sequence = 0;
  #version = 0;

  get current(): readonly TenantCluster[] {
    return this.#current;
  }

  get sequence(): number {
    return this.#sequence;
  }

  get version(): number {
    return this.#version;
  }

  get observedAt(): number {
    return this.#observedAt;
  }

  observe(clusters: readonly TenantCluster[], at: number): void {
    this.#index = undefined;
    for (const cluster of clusters) this.#meet(cluster, at);
    const ids = new Set(clusters.map((cluster) => cluster.id));
    for (const [id, entry] of this.#entries) {
      if (!ids.has(id) && entry.spans.at(-1)?.to === Infinity) {
        entry.spans = spansBefore(entry.spans, at);
        this.#version += 1;
      }
    }
    this.#current = clusters;
    this.#observedAt = at;
  }

  tenancies(namespace: string, from: number, to: number): readonly Tenancy[] {
    return split(this.#inNamespace(namespace, from, to), from, to);
  }

  during(from: number, to: number): readonly Span<TenantCluster>[] {
    return [...this.#entries.values()].flatMap(({ spans }) => spansWithin(spans, from, to));
  }

  statesOf(id: string, from: number, to: number): readonly Span<TenantCluster>[] {
    return spansWithin(this.#entries.get(id)?.spans ?? [], from, to);
  }

  learntAfter(sequence: number): readonly LateTenantCluster[] {
    return [...this.#entries.values()].flatMap(({ learntAs, spans, existedFrom }) => {
      const last = spans.at(-1);
      if (learntAs <= sequence || last === undefined) return [];
      return [{ cluster: last.state, from: existedFrom }];
    });
  }

  prune(horizon: number): void {
    this.#index = undefined;
    for (const [id, entry] of this.#entries) {
      entry.spans = spansAfter(entry.spans, horizon);
      if (entry.spans.length === 0) this.#entries.delete(id);
    }
  }

  snapshot(): TenantClusterSnapshot {
    return [...this.#entries.values()].flatMap(({ spans }) =>
      spans.map(({ from, to, state }) => ({
        from,
        to: to === Infinity ? null : to,
        cluster: state,
      })),
    );
  }

  restore(snapshot: TenantClusterSnapshot, observedAt: number): void {
    this.#index = undefined;
    this.#observedAt = observedAt;
    for (const [id, stored] of Map.groupBy(snapshot, ({ cluster }) => cluster.id)) {
      const spans = stored.map(({ from, to, cluster }) => ({
        from,
        to: to ?? Infinity,
        state: cluster,
      }));
      const last = spans.at(-1);
      if (last === undefined) continue;
      const key = billingKey(last.state);
      this.#entries.set(id, { spans, billingKey: key, learntAs: 0, existedFrom: last.from });
    }
    this.#current = snapshot.filter(({ to }) => to === null).map(({ cluster }) => cluster);
  }

  #meet(cluster: TenantCluster, at: number): void {
    const known = this.#entries.get(cluster.id);
    const open = known?.spans.at(-1)?.to === Infinity;
    const key = billingKey(cluster);
    if (known !== undefined && open && known.billingKey === key) return;
    this.#version += 1;
    if (known !== undefined && open) {
      known.billingKey = key;
      known.spans = [...spansBefore(known.spans, at), openSpan(cluster, at)];
      return;
    }
    // It was not there in the round before, so it is no older than that.
    const from = Math.min(Math.max(cluster.createdAt, this.#observedAt), at);
    this.#sequence += 1;
    this.#entries.set(cluster.id, {
      spans: [...spansBefore(known?.spans ?? [], from), openSpan(cluster, from)],
      billingKey: key,
      learntAs: this.#sequence,
      existedFrom: from,
    });
  }

  #inNamespace(namespace: string, from: number, to: number): readonly Span<TenantCluster>[] {
    this.#index ??= Map.groupBy(
      this.#entries.values(),
      ({ spans }) => spans[0]?.state.namespace ?? '',
    );
    const entries = this.#index.get(namespace) ?? [];
    return entries.flatMap(({ spans }) =>
      spansWithin(spans, from, to).filter(({ state }) => state.namespace === namespace),
    );
  }
}

function spansWithin(
  spans: readonly Span<TenantCluster>[],
  from: number,
  to: number,
): readonly Span<TenantCluster>[] {
  return spans.filter((span) => span.from < to && span.to > from);
}

function openSpan(cluster: TenantCluster, from: number): Span<TenantCluster> {
  return { from, to: Infinity, state: cluster };
}

/** Only what changes an event splits a span; a new e-mail address does not. */
function billingKey(cluster: TenantCluster): string {
  const { namespace, name, tenant, project, tenantClass, excluded, metering } = cluster;
  return JSON.stringify([namespace, name, tenant, project, tenantClass, excluded, metering]);
}

function split(spans: readonly Span<TenantCluster>[], from: number, to: number): Tenancy[] {
  if (spans.length === 0) return [];
  return splitAtEdges(from, to, spans).flatMap(([start, end]) => {
    const present = spans.filter((span) => span.from <= start && span.to >= end);
    if (present.length === 0) return [];
    return [{ from: start, to: end, clusters: present.map(({ state }) => state) }];
  });
}
