import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { NamespaceMapping } from './namespace-mappings.ts';
import type { Span } from './timeline.ts';

/** The timelines of tenant clusters as plain JSON; `to` is null while a state lasts. */
export type TenantClusterSnapshot = readonly {
  readonly from: number;
  readonly to: number | null;
  readonly cluster: TenantCluster;
  /** It was gone, while objects of it still existed. */
  readonly leaving?: true;
  /** The namespaces that its syncer mapped; on one of its rows only. */
  readonly mapped?: readonly {
    readonly namespace: string;
    readonly from: number;
    readonly to: number | null;
    readonly uncertainFrom?: number;
    readonly uncertainTo?: number;
  }[];
}[];

/** The timeline and mappings of one tenant cluster. */
export interface KnownTenantCluster {
  readonly spans: readonly Span<TenantCluster>[];
  readonly leaving?: Span<TenantCluster>;
  readonly mappings: readonly NamespaceMapping[];
}

export function storedRows({
  spans,
  leaving,
  mappings,
}: KnownTenantCluster): TenantClusterSnapshot {
  const [first, ...rows] = [
    ...spans.map(storedSpan),
    ...(leaving === undefined ? [] : [{ ...storedSpan(leaving), leaving: true as const }]),
  ];
  if (first === undefined) return [];
  const mapped = mappings.map(({ cluster: _cluster, learntAs: _learntAs, to, ...mapping }) => ({
    ...mapping,
    to: orNull(to),
  }));
  return [{ ...first, ...(mapped.length > 0 && { mapped }) }, ...rows];
}

/** Reads the rows of one tenant cluster. */
export function restoredRows(rows: TenantClusterSnapshot): KnownTenantCluster {
  const mappings = rows.flatMap(({ cluster, mapped = [] }) =>
    mapped.map(({ to, ...mapping }) => {
      return { ...mapping, cluster: cluster.id, to: to ?? Infinity, learntAs: 0 };
    }),
  );
  const leaving = rows.filter((row) => row.leaving === true).map(restoredSpan)[0];
  const spans = rows.filter((row) => row.leaving !== true).map(restoredSpan);
  return { spans, mappings, leaving };
}

function storedSpan({ from, to, state }: Span<TenantCluster>): TenantClusterSnapshot[number] {
  return { from, to: orNull(to), cluster: state };
}

function restoredSpan({ from, to, cluster }: TenantClusterSnapshot[number]): Span<TenantCluster> {
  return { from, to: to ?? Infinity, state: cluster };
}

function orNull(to: number): number | null {
  return to === Infinity ? null : to;
}
