import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { NamespaceMapping } from './namespace-mappings.ts';
import type { Span } from './timeline.ts';

/** What is known of tenant clusters as plain JSON values; `to` null while a state holds. */
export type TenantClusterSnapshot = readonly {
  readonly from: number;
  readonly to: number | null;
  readonly cluster: TenantCluster;
  /** It was gone by then, and objects of it were still there. */
  readonly leaving?: true;
  /** On one of its rows: what its syncer had mapped. */
  readonly mapped?: readonly {
    readonly namespace: string;
    readonly from: number;
    readonly to: number | null;
    readonly unsureFrom?: number;
    readonly unsureTo?: number;
  }[];
}[];

/** What is known of one tenant cluster. */
export interface KnownTenantCluster {
  readonly spans: readonly Span<TenantCluster>[];
  readonly leaving?: Span<TenantCluster> | undefined;
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

/** All rows must be of the same tenant cluster. */
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
