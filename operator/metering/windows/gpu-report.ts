import type { GpuBalance, GpuShare } from '../meters/meter-reports.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';

/**
 * Where GPU time went in a window, in GPU-seconds: installed = billed + idle + downtime + system +
 * unaccounted (docs/explanation/gpus.md#the-balance-of-gpus). `overlap` and `carried` are apart.
 */
export interface GpuSeconds {
  readonly gpuType: string;
  readonly installed: number;
  readonly billed: number;
  readonly idle: number;
  readonly downtime: number;
  readonly system: number;
  /** Billed to another tenant on a node that one tenant is billed whole. */
  readonly overlap: number;
  /** Charged or credited for closed windows. */
  readonly carried: number;
  /** Always 0; metric `meterfeed_unaccounted_gpu_seconds`. */
  readonly unaccounted: number;
}

export interface NodeGpuSeconds extends GpuSeconds {
  readonly node: string;
  /** Whose own node it is; absent for nodes of this cluster. */
  readonly tenantCluster?: string;
}

/** What a tenant had of the GPUs of a model, in GPU-seconds (docs/explanation/gpus.md#delivered-healthy-reserved-in-use). */
export interface TenantGpuSeconds {
  /** `unassigned` for what no tenant has. */
  readonly tenant: string;
  readonly gpuType: string;
  readonly delivered: number;
  readonly healthy: number;
  readonly reserved: number;
  readonly inUse: number;
}

/** Stands for a tenant where there is none. */
const UNASSIGNED = 'unassigned';

export interface GpuReport {
  /** Of all nodes of this cluster, by model. */
  readonly models: readonly GpuSeconds[];
  /** Of the nodes that tenant clusters have of their own, by model; absent where there are none. */
  readonly privateNodes?: readonly GpuSeconds[];
  /** By tenant and model, of this cluster's nodes and of tenant clusters' own; kept for the newest windows only. */
  readonly tenants?: readonly TenantGpuSeconds[];
  /** By node and model; kept for the newest windows only. */
  readonly nodes?: readonly NodeGpuSeconds[];
}

const AMOUNTS = [
  'installed',
  'billed',
  'idle',
  'downtime',
  'system',
  'overlap',
  'carried',
  'unaccounted',
] as const;

/** `own` are the balances of tenant clusters with nodes of their own, by their ids; `shares` are those of all nodes. */
export function gpuReport(
  balances: readonly GpuBalance[],
  own: ReadonlyMap<string, readonly GpuBalance[]> = new Map(),
  shares: readonly GpuShare[] = [],
): GpuReport {
  const tenants = byTenant(shares);
  const privateNodes = byModel([...own.values()].flat());
  const nodes = [
    ...byNode(balances),
    ...[...own].flatMap(([tenantCluster, rows]) =>
      byNode(rows).map((row) => ({ ...row, tenantCluster })),
    ),
  ];
  return {
    models: byModel(balances),
    privateNodes: privateNodes.length === 0 ? undefined : privateNodes,
    tenants: tenants.length === 0 ? undefined : tenants,
    nodes: nodes.length === 0 ? undefined : nodes,
  };
}

function byTenant(shares: readonly GpuShare[]): readonly TenantGpuSeconds[] {
  const groups = Map.groupBy(shares, ({ tenant, type }) => JSON.stringify([tenant, type]));
  return [...groups.values()]
    .flatMap((rows) => {
      const [first] = rows;
      if (first === undefined) return [];
      const sum = (key: 'delivered' | 'healthy' | 'reserved' | 'inUse'): number =>
        toSeconds(rows.reduce((total, row) => total + row[key], 0n));
      return {
        tenant: first.tenant ?? UNASSIGNED,
        gpuType: first.type,
        delivered: sum('delivered'),
        healthy: sum('healthy'),
        reserved: sum('reserved'),
        inUse: sum('inUse'),
      };
    })
    .toSorted((a, b) => order(a.tenant, b.tenant) || order(a.gpuType, b.gpuType));
}

function byModel(balances: readonly GpuBalance[]): readonly GpuSeconds[] {
  return [...Map.groupBy(balances, ({ type }) => type)]
    .map(([gpuType, rows]) => ({ gpuType, ...seconds(rows) }))
    .toSorted((a, b) => order(a.gpuType, b.gpuType));
}

function byNode(balances: readonly GpuBalance[]): readonly NodeGpuSeconds[] {
  return balances
    .toSorted((a, b) => order(a.node, b.node) || order(a.type, b.type))
    .map((row) => ({ node: row.node, gpuType: row.type, ...seconds([row]) }));
}

/** What charges and holds disagree by, summed without regard to sign, so that no error hides another. */
export function unaccountedSeconds(balances: readonly GpuBalance[]): number {
  return exactSeconds(
    balances.reduce(
      (sum, { unaccounted }) => sum + (unaccounted < 0n ? -unaccounted : unaccounted),
      0n,
    ),
  );
}

function seconds(rows: readonly GpuBalance[]): Omit<GpuSeconds, 'gpuType'> {
  const sums = AMOUNTS.map((amount) => [
    amount,
    toSeconds(rows.reduce((sum, row) => sum + row[amount], 0n)),
  ]);
  return Object.fromEntries(sums) as Omit<GpuSeconds, 'gpuType'>;
}

/** GPU-seconds of parts × milliseconds, to the microsecond. */
export function toSeconds(amount: bigint): number {
  return Math.round(exactSeconds(amount) * 1e6) / 1e6;
}

function exactSeconds(amount: bigint): number {
  return Number(amount) / Number(UNITS_PER_GPU * 1000n);
}

function order(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
