import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { type Span, spansAfter, spansBefore, splitAtEdges } from './timeline.ts';

/** The tenant clusters of one namespace during one stretch in which none of them changed. */
export interface Tenancy {
  readonly from: number;
  readonly to: number;
  readonly clusters: readonly TenantCluster[];
  /** Those that are gone while objects of theirs are still there; absent where there are none. */
  readonly leaving?: readonly LeavingTenantCluster[];
}

/**
 * A tenant cluster that is gone, and whose objects end after it: what existed before it left is
 * billed to it until that is gone too (docs/discovery.md#uninstalling).
 */
export interface LeavingTenantCluster {
  readonly cluster: TenantCluster;
  readonly leftAt: number;
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
  /** Those that are gone, as long as objects of theirs may be there. */
  readonly leaving: readonly LeavingTenantCluster[];
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
  /** Ends the leaving of those of which nothing is there any more. */
  release(holdsObjects: (leaving: LeavingTenantCluster) => boolean, at: number): void;
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
  /** It was gone by then, and objects of it were still there. */
  readonly leaving?: true;
}[];

interface Entry {
  spans: readonly Span<TenantCluster>[];
  /** From when it was gone until nothing of it was there any more. */
  leaving?: Span<TenantCluster>;
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

  get leaving(): readonly LeavingTenantCluster[] {
    return [...this.#entries.values()].flatMap(({ leaving }) =>
      leaving === undefined || leaving.to < Infinity ? [] : [leavingOf(leaving)],
    );
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
      const last = entry.spans.at(-1);
      if (ids.has(id) || last?.to !== Infinity) continue;
      entry.spans = spansBefore(entry.spans, at);
      entry.leaving = openSpan(last.state, at);
      this.#version += 1;
    }
    this.#current = clusters;
    this.#observedAt = at;
  }

  tenancies(namespace: string, from: number, to: number): readonly Tenancy[] {
    const entries = this.#inNamespace(namespace);
    const inside = ({ state }: Span<TenantCluster>) => state.namespace === namespace;
    const present = entries.flatMap(({ spans }) => spansWithin(spans, from, to).filter(inside));
    const leaving = entries.flatMap(({ leaving: span }) =>
      span === undefined ? [] : spansWithin([span], from, to).filter(inside),
    );
    return split(present, leaving, from, to);
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

  release(holdsObjects: (leaving: LeavingTenantCluster) => boolean, at: number): void {
    for (const entry of this.#entries.values()) {
      const { leaving } = entry;
      if (leaving?.to !== Infinity || holdsObjects(leavingOf(leaving))) continue;
      entry.leaving = { ...leaving, to: Math.max(at, leaving.from) };
      this.#version += 1;
    }
  }

  prune(horizon: number): void {
    this.#index = undefined;
    for (const [id, entry] of this.#entries) {
      entry.spans = spansAfter(entry.spans, horizon);
      if (entry.leaving !== undefined && entry.leaving.to <= horizon) delete entry.leaving;
      if (entry.spans.length === 0 && entry.leaving === undefined) this.#entries.delete(id);
    }
  }

  snapshot(): TenantClusterSnapshot {
    return [...this.#entries.values()].flatMap(({ spans, leaving }) => [
      ...spans.map(storedSpan),
      ...(leaving === undefined ? [] : [{ ...storedSpan(leaving), leaving: true as const }]),
    ]);
  }

  restore(snapshot: TenantClusterSnapshot, observedAt: number): void {
    this.#index = undefined;
    this.#observedAt = observedAt;
    for (const [id, stored] of Map.groupBy(snapshot, ({ cluster }) => cluster.id)) {
      const spans = stored.filter((one) => one.leaving !== true).map(restoredSpan);
      const leaving = stored.filter((one) => one.leaving === true).map(restoredSpan)[0];
      const last = spans.at(-1) ?? leaving;
      if (last === undefined) continue;
      this.#entries.set(id, {
        spans,
        billingKey: billingKey(last.state),
        learntAs: 0,
        existedFrom: last.from,
        ...omitUndefined({ leaving }),
      });
    }
    this.#current = snapshot
      .filter(({ to, leaving }) => to === null && leaving !== true)
      .map(({ cluster }) => cluster);
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

  #inNamespace(namespace: string): readonly Entry[] {
    this.#index ??= Map.groupBy(
      this.#entries.values(),
      ({ spans, leaving }) => (spans[0] ?? leaving)?.state.namespace ?? '',
    );
    return this.#index.get(namespace) ?? [];
  }
}

function leavingOf({ from, state }: Span<TenantCluster>): LeavingTenantCluster {
  return { cluster: state, leftAt: from };
}

function storedSpan({ from, to, state }: Span<TenantCluster>): TenantClusterSnapshot[number] {
  return { from, to: to === Infinity ? null : to, cluster: state };
}

function restoredSpan({ from, to, cluster }: TenantClusterSnapshot[number]): Span<TenantCluster> {
  return { from, to: to ?? Infinity, state: cluster };
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

function split(
  spans: readonly Span<TenantCluster>[],
  leaving: readonly Span<TenantCluster>[],
  from: number,
  to: number,
): Tenancy[] {
  if (spans.length === 0 && leaving.length === 0) return [];
  return splitAtEdges(from, to, [...spans, ...leaving]).flatMap(([start, end]) => {
    const holds = (span: Span<TenantCluster>) => span.from <= start && span.to >= end;
    const clusters = spans.filter(holds).map(({ state }) => state);
    const left = leaving.filter(holds).map(leavingOf);
    if (left.length > 0) return [{ from: start, to: end, clusters, leaving: left }];
    return clusters.length === 0 ? [] : [{ from: start, to: end, clusters }];
  });
}

/**
 * The tenant clusters that an object may belong to: those that are there, and of those that are gone the
 * ones that it was there before.
 */
export function candidatesFor(
  { clusters, leaving }: Pick<Tenancy, 'clusters' | 'leaving'>,
  objectSince: number,
): readonly TenantCluster[] {
  if (leaving === undefined) return clusters;
  const gone = leaving.filter(({ leftAt }) => objectSince < leftAt);
  return [...clusters, ...gone.map(({ cluster }) => cluster)];
}
