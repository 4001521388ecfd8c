/** What the meters report besides charges, for the window report. */
export interface Diagnostics {
  /** Objects without a known owner, by `namespace/name`. */
  readonly unattributed: Map<string, Unattributed>;
  /** Usage of control plane pods, by `namespace/name`. */
  readonly controlPlane: Map<string, ControlPlaneUse>;
  /** `namespace/name` of the objects of virtual machines that are nodes of tenant clusters. */
  readonly machines: Set<string>;
  /** Pod time without a usage sample although the basis needs one, by tenant cluster id. */
  readonly unsampled: Map<
    string,
    { readonly podMs: number; readonly from: number; readonly to: number }
  >;
  /** Nodes that several tenant clusters have an equal claim to, with the ids of those. */
  readonly contested: Map<string, readonly string[]>;
  /** Charged GPU time, by node name and GPU model. */
  readonly gpuUses: Map<string, Map<string, GpuUse>>;
  /** Number of resource slices beyond the limit that were left out, by node name. */
  readonly omittedSlices: Map<string, number>;
  /** The balance of each node's GPU time. */
  readonly gpuBalances: GpuBalance[];
  /** Each tenant's share of all GPUs, and the share of none, by tenant and model. */
  readonly gpuShares: Map<string, GpuShare>;
  /** For private nodes only. */
  privateNodeReport?: PrivateNodeChanges;
}

/** An object nobody is billed for: its owner is unknown or its namespace is excluded. */
export interface Unattributed {
  readonly reason: string;
  /** Its unbilled GPU time on nodes of this cluster, {@link UNITS_PER_GPU} × milliseconds. */
  gpu: bigint;
}

/** The usage of a control plane pod. */
export interface ControlPlaneUse {
  /** CPU time that nobody is billed for, nanocores × milliseconds. */
  cpu: bigint;
  /** GPU time, which is billed to the tenant; {@link UNITS_PER_GPU} × milliseconds. */
  gpu: bigint;
}

/** Changes of private nodes in a window, by the tenant's API, that lower their cost. */
export interface PrivateNodeChanges {
  /** Time of nodes, and the part in which they were down, milliseconds; including late facts. */
  nodeMs: number;
  downMs: number;
  /** How often a node went down. */
  flaps: number;
  /** Label changes that make a node cheaper, or may, `g1: capacity type "on-demand" → "spot"`. */
  readonly relabelled: Set<string>;
}

/**
 * The balance of one node's GPU time of one model in a window, {@link UNITS_PER_GPU} × milliseconds
 * (docs/explanation/gpus.md#the-balance-of-gpus): installed = billed + idle + downtime + system +
 * unaccounted.
 */
export interface GpuBalance {
  readonly node: string;
  readonly type: string;
  /** The installed GPUs, or what was in use if that is more: labels may lag behind. */
  readonly installed: bigint;
  /** Charged as GPU hours: to the tenant of the complete node, or to those whose pods use them. */
  readonly billed: bigint;
  readonly idle: bigint;
  readonly downtime: bigint;
  /**
   * Used by pods that no tenant is billed for: the platform's own, control planes, excluded tenant
   * clusters, unattributed ones.
   */
  readonly system: bigint;
  /** Charged to another tenant on a node that is billed as a whole; not part of the sum. */
  readonly overlap: bigint;
  /** Charged or reversed for closed windows; not part of the sum. */
  readonly carried: bigint;
  /** The difference between charges and allocations; always zero. */
  readonly unaccounted: bigint;
}

/**
 * A tenant's share of one model in a window, {@link UNITS_PER_GPU} × milliseconds
 * (docs/explanation/gpus.md#delivered-healthy-reserved-in-use). `delivered` of all rows sums to
 * what is installed.
 */
export interface GpuShare {
  /** Undefined for the share of no tenant. */
  readonly tenant: string | undefined;
  readonly type: string;
  readonly delivered: bigint;
  /** The part of `delivered` that is not down. */
  readonly healthy: bigint;
  /** The part of `delivered` that nobody else can use. */
  readonly reserved: bigint;
  /** The part of `healthy` that the tenant's own pods use. */
  readonly inUse: bigint;
}

/** Charged GPU time on one node of one model in a window, {@link UNITS_PER_GPU} × milliseconds. */
export interface GpuUse {
  /** As GPU hours. */
  billed: bigint;
  downtime: bigint;
  /** To another tenant than the one that is billed the complete node. */
  overlap: bigint;
  /** Charged or reversed late for closed windows; in none of the other amounts. */
  carried: bigint;
}

export function createDiagnostics(): Diagnostics {
  return {
    unattributed: new Map(),
    controlPlane: new Map(),
    machines: new Set(),
    unsampled: new Map(),
    contested: new Map(),
    gpuUses: new Map(),
    omittedSlices: new Map(),
    gpuBalances: [],
    gpuShares: new Map(),
  };
}

/** Lists an object as unattributed; the first reason in a window counts. */
export function noteUnattributed(
  { unattributed }: Pick<Diagnostics, 'unattributed'>,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  reason: string,
): Unattributed {
  const key = `${namespace}/${name}`;
  const known = unattributed.get(key);
  if (known !== undefined) return known;
  const noted: Unattributed = { reason, gpu: 0n };
  unattributed.set(key, noted);
  return noted;
}

/** Adds to the usage of a control plane pod. */
export function noteControlPlane(
  { controlPlane }: Pick<Diagnostics, 'controlPlane'>,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { cpu = 0n, gpu = 0n }: Partial<ControlPlaneUse>,
): void {
  const key = `${namespace}/${name}`;
  const known = controlPlane.get(key) ?? { cpu: 0n, gpu: 0n };
  controlPlane.set(key, { cpu: known.cpu + cpu, gpu: known.gpu + gpu });
}

/** Notes charged GPU time, for the balance in the window report. */
export function noteGpuUse(
  diagnostics: Diagnostics,
  noted: {
    readonly node: string;
    readonly type: string;
    readonly kind: 'billed' | 'downtime' | 'overlap';
    readonly carried: boolean;
    readonly amount: bigint;
  },
): void {
  const { node, type, kind, carried, amount } = noted;
  const use = gpuUse(diagnostics, node, type);
  if (carried) use.carried += amount;
  else use[kind] += amount;
}

export function gpuUse({ gpuUses }: Diagnostics, node: string, type: string): GpuUse {
  const byType = gpuUses.get(node) ?? new Map<string, GpuUse>();
  gpuUses.set(node, byType);
  const use = byType.get(type) ?? { billed: 0n, downtime: 0n, overlap: 0n, carried: 0n };
  byType.set(type, use);
  return use;
}
