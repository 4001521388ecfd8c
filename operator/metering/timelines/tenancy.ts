import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { type Span, splitAtEdges } from './timeline.ts';

/** The tenant clusters of one namespace during a stretch of time in which none of them changed. */
export interface Tenancy {
  readonly from: number;
  readonly to: number;
  readonly clusters: readonly TenantCluster[];
  /** How much earlier it may have begun, or later ended, if nobody observed it; milliseconds. */
  readonly uncertainFrom?: number;
  readonly uncertainTo?: number;
  /** Tenant clusters that are gone while objects of them still exist; absent if there are none. */
  readonly leaving?: readonly LeavingTenantCluster[];
}

/**
 * A tenant cluster that is gone while objects of it still exist. Objects that existed before it
 * left are billed to it until they are gone too (docs/explanation/discovery.md#uninstalling).
 */
export interface LeavingTenantCluster {
  readonly cluster: TenantCluster;
  readonly leftAt: number;
}

/** Splits the time of present and leaving tenant clusters into stretches in which none changed. */
export function tenanciesOf(
  spans: readonly Span<TenantCluster>[],
  leaving: readonly Span<TenantCluster>[],
  from: number,
  to: number,
): Tenancy[] {
  if (spans.length === 0 && leaving.length === 0) return [];
  return splitAtEdges(from, to, [...spans, ...leaving]).flatMap(([start, end]) => {
    const covers = (span: Span<TenantCluster>) => span.from <= start && span.to >= end;
    const clusters = spans.filter(covers).map(({ state }) => state);
    const left = leaving.filter(covers).map(leavingOf);
    if (clusters.length === 0 && left.length === 0) return [];
    const covering = [...spans, ...leaving].filter(covers);
    const uncertainFrom = covering.find((span) => span.from === start)?.uncertainFrom;
    const uncertainTo = covering.find((span) => span.to === end)?.uncertainTo;
    const leavers = left.length > 0 ? left : undefined;
    return [
      {
        from: start,
        to: end,
        clusters,
        uncertainFrom,
        uncertainTo,
        leaving: leavers,
      },
    ];
  });
}

/** Converts a span in which a tenant cluster was leaving. */
export function leavingOf({ from, state }: Span<TenantCluster>): LeavingTenantCluster {
  return { cluster: state, leftAt: from };
}

/**
 * Returns the tenant clusters that an object may belong to: all present ones, and the leaving ones
 * that left after the object began.
 */
export function candidatesFor(
  { clusters, leaving }: Pick<Tenancy, 'clusters' | 'leaving'>,
  objectSince: number,
): readonly TenantCluster[] {
  if (leaving === undefined) return clusters;
  const gone = leaving.filter(({ leftAt }) => objectSince < leftAt);
  return [...clusters, ...gone.map(({ cluster }) => cluster)];
}
