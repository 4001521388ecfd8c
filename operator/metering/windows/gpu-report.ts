import type { GpuBalance, GpuShare } from '../meters/meter-reports.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';

/**
 * GPU-seconds of a window by use: installed = billed + idle + downtime + system + unaccounted
 * (docs/explanation/gpus.md#the-balance-of-gpus). `overlap` and `carried` are outside of this sum.
 */
export interface GpuSeconds {
  readonly gpuType: string;
  readonly installed: number;
  readonly billed: number;
  readonly idle: number;
  readonly downtime: number;
  readonly system: number;
  /** Billed to a second tenant on a node that is billed completely to one tenant. */
  readonly overlap: number;
  /** Charged or reversed for closed windows. */
  readonly carried: number;
  /** Always 0; metric `meterfeed_unaccounted_gpu_seconds`. */
  readonly unaccounted: number;
}

export interface NodeGpuSeconds extends GpuSeconds {
  readonly node: string;
  /** The tenant cluster that has the private node; absent for nodes of this cluster. */
  readonly tenantCluster?: string;
}

/** A tenant's GPU-seconds by model (docs/explanation/gpus.md#delivered-healthy-reserved-in-use). */
export interface TenantGpuSeconds {
  /** `unassigned` for GPUs that no tenant has. */
  readonly tenant: string;
  readonly gpuType: string;
  readonly delivered: number;
  readonly healthy: number;
  readonly reserved: number;
  readonly inUse: number;
}

/** Stands for a missing tenant. */
const UNASSIGNED = 'unassigned';

export interface GpuReport {
  /** All nodes of this cluster, by model. */
  readonly models: readonly GpuSeconds[];
  /** Private nodes of tenant clusters, by model; absent if there are none. */
  readonly privateNodes?: readonly GpuSeconds[];
  /** By tenant and model, on all nodes. Only the newest windows have it. */
  readonly tenants?: readonly TenantGpuSeconds[];
  /** By node and model. Only the newest windows have it. */
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

/**
 * Builds the report. `ofPrivateNodes` has the balances of private nodes by tenant cluster id;
 * `shares` cover all nodes.
 */
export function gpuReport(
  balances: readonly GpuBalance[],
  ofPrivateNodes: ReadonlyMap<string, readonly GpuBalance[]> = new Map(),
  shares: readonly GpuShare[] = [],
): GpuReport {
  const tenants = byTenant(shares);
  const privateNodes = byModel([...ofPrivateNodes.values()].flat());
  const nodes = [
    ...byNode(balances),
    ...[...ofPrivateNodes].flatMap(([tenantCluster, rows]) =>
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

/** Difference between charges and allocations, without signs so that errors never cancel out. */
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

/** Converts parts × milliseconds to GPU-seconds, rounded to the microsecond. */
export function toSeconds(amount: bigint): number {
  return Math.round(exactSeconds(amount) * 1e6) / 1e6;
}

function exactSeconds(amount: bigint): number {
  return Number(amount) / Number(UNITS_PER_GPU * 1000n);
}

function order(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
