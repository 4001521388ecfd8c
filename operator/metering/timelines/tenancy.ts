import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { type Span, splitAtEdges } from './timeline.ts';

/** The tenant clusters of one namespace during one stretch in which none of them changed. */
export interface Tenancy {
  readonly from: number;
  readonly to: number;
  readonly clusters: readonly TenantCluster[];
  /** How much earlier it may have begun, and how much later ended, where nobody saw that; milliseconds. */
  readonly unsureFrom?: number;
  readonly unsureTo?: number;
  /** Those that are gone while objects of theirs are still there; absent where there are none. */
  readonly leaving?: readonly LeavingTenantCluster[];
}

/**
 * A tenant cluster that is gone, and whose objects end after it: what existed before it left is
 * billed to it until that is gone too (docs/explanation/discovery.md#uninstalling).
 */
export interface LeavingTenantCluster {
  readonly cluster: TenantCluster;
  readonly leftAt: number;
}

/** Cuts the time in which tenant clusters were there, or were leaving, into stretches in which none changed. */
export function tenanciesOf(
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
    if (clusters.length === 0 && left.length === 0) return [];
    const held = [...spans, ...leaving].filter(holds);
    const uncertainFrom = held.find((span) => span.from === start)?.unsureFrom;
    const uncertainTo = held.find((span) => span.to === end)?.unsureTo;
    const leavers = left.length > 0 ? left : undefined;
    return [
      {
        from: start,
        to: end,
        clusters,
        unsureFrom: uncertainFrom,
        unsureTo: uncertainTo,
        leaving: leavers,
      },
    ];
  });
}

/** A span of leaving, as what it says. */
export function leavingOf({ from, state }: Span<TenantCluster>): LeavingTenantCluster {
  return { cluster: state, leftAt: from };
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
