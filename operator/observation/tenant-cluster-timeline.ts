import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { type Span, spansAfter, spansBefore } from './timeline.ts';

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
 * those valid during a span, never looked up afterwards (design 6).
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
  const entries = new Map<string, Entry>();
  let current: readonly TenantCluster[] = [];
  let observedAt = 0;
  let sequence = 0;
  let version = 0;

  const meet = (cluster: TenantCluster, at: number): void => {
    const known = entries.get(cluster.id);
    const open = known?.spans.at(-1)?.to === Infinity;
    const key = billingKey(cluster);
    if (known !== undefined && open && known.billingKey === key) return;
    version += 1;
    if (known !== undefined && open) {
      known.billingKey = key;
      known.spans = [...spansBefore(known.spans, at), openSpan(cluster, at)];
      return;
    }
    // It was not there in the round before, so it is no older than that.
    const from = Math.min(Math.max(cluster.createdAt, observedAt), at);
    sequence += 1;
    const spans = [...spansBefore(known?.spans ?? [], from), openSpan(cluster, from)];
    entries.set(cluster.id, { spans, billingKey: key, learntAs: sequence, existedFrom: from });
  };

  const inNamespace = (namespace: string, from: number, to: number): Span<TenantCluster>[] => {
    const spans: Span<TenantCluster>[] = [];
    for (const entry of namespaceIndex().get(namespace) ?? []) {
      for (const span of entry.spans) {
        if (span.from < to && span.to > from && span.state.namespace === namespace)
          spans.push(span);
      }
    }
    return spans;
  };

  let index: ReadonlyMap<string, readonly Entry[]> | undefined;
  const namespaceIndex = (): ReadonlyMap<string, readonly Entry[]> => {
    index ??= Map.groupBy(entries.values(), (entry) => entry.spans[0]?.state.namespace ?? '');
    return index;
  };

  return {
    get current() {
      return current;
    },
    get sequence() {
      return sequence;
    },
    get version() {
      return version;
    },
    get observedAt() {
      return observedAt;
    },
    observe: (clusters, at) => {
      index = undefined;
      for (const cluster of clusters) meet(cluster, at);
      const ids = new Set(clusters.map((cluster) => cluster.id));
      for (const [id, entry] of entries) {
        if (!ids.has(id) && entry.spans.at(-1)?.to === Infinity) {
          entry.spans = spansBefore(entry.spans, at);
          version += 1;
        }
      }
      current = clusters;
      observedAt = at;
    },
    tenancies: (namespace, from, to) => split(inNamespace(namespace, from, to), from, to),
    during: (from, to) =>
      [...entries.values()].flatMap((entry) =>
        entry.spans.filter((span) => span.from < to && span.to > from),
      ),
    statesOf: (id, from, to) =>
      (entries.get(id)?.spans ?? []).filter((span) => span.from < to && span.to > from),
    learntAfter: (after) =>
      [...entries.values()]
        .filter((entry) => entry.learntAs > after)
        .flatMap((entry) => {
          const last = entry.spans.at(-1);
          return last === undefined ? [] : [{ cluster: last.state, from: entry.existedFrom }];
        }),
    prune: (horizon) => {
      index = undefined;
      for (const [id, entry] of entries) {
        entry.spans = spansAfter(entry.spans, horizon);
        if (entry.spans.length === 0) entries.delete(id);
      }
    },
    snapshot: () =>
      [...entries.values()].flatMap((entry) =>
        entry.spans.map((span) => ({
          from: span.from,
          to: span.to === Infinity ? null : span.to,
          cluster: span.state,
        })),
      ),
    restore: (snapshot, at) => {
      index = undefined;
      observedAt = at;
      const byId = Map.groupBy(snapshot, (stored) => stored.cluster.id);
      for (const [id, stored] of byId) {
        const spans = stored.map(({ from, to, cluster }) => ({
          from,
          to: to ?? Infinity,
          state: cluster,
        }));
        const last = spans.at(-1);
        if (last === undefined) continue;
        const key = billingKey(last.state);
        entries.set(id, { spans, billingKey: key, learntAs: 0, existedFrom: last.from });
      }
      current = snapshot.filter(({ to }) => to === null).map(({ cluster }) => cluster);
    },
  };
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
  const cuts = new Set([from, to]);
  for (const span of spans) {
    if (span.from > from) cuts.add(span.from);
    if (span.to < to) cuts.add(span.to);
  }
  const bounds = [...cuts].toSorted((a, b) => a - b);
  return bounds.slice(0, -1).flatMap((start, position) => {
    const end = bounds[position + 1] ?? to;
    const clusters = spans.filter((span) => span.from <= start && span.to >= end);
    if (clusters.length === 0) return [];
    return [{ from: start, to: end, clusters: clusters.map((span) => span.state) }];
  });
}
