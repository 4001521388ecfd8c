/** What a rule family found besides charges, for the window report. */
export interface Diagnostics {
  /** Objects that cannot be told whose they are, by `namespace/name`. */
  readonly unattributed: Map<string, Unattributed>;
  /** What pods of control planes used, by `namespace/name`. */
  readonly controlPlane: Map<string, ControlPlaneUse>;
  /** `namespace/name` of what virtual machines are made of that are nodes of tenant clusters. */
  readonly machines: Set<string>;
  /** Where pods had no usage sample although the basis needs one, by tenant cluster id. */
  readonly unsampled: Map<
    string,
    { readonly podMs: number; readonly from: number; readonly to: number }
  >;
  /** Nodes that several tenant clusters have an equal claim to, with the ids of those. */
  readonly contested: Map<string, readonly string[]>;
  /** GPU time that was charged, by node name and GPU model. */
  readonly gpuUses: Map<string, Map<string, GpuUse>>;
  /** Nodes with more resource slices than are looked at, with how many were left out. */
  readonly omittedSlices: Map<string, number>;
  /** Where the GPU time of each node went. */
  readonly gpuBalances: GpuBalance[];
  /** What of all GPUs each tenant has, and what none has, by tenant and model. */
  readonly gpuShares: Map<string, GpuShare>;
  /** Of a tenant cluster's own nodes only. */
  privateNodeReport?: PrivateNodeWord;
}

/** An object that nobody is billed for: nobody can tell whose it is, or its namespace is excluded. */
export interface Unattributed {
  readonly reason: string;
  /** GPU time on nodes of this cluster that it held and that nobody is billed for, parts × milliseconds. */
  gpu: bigint;
}

/** What a pod of a control plane used. */
export interface ControlPlaneUse {
  /** CPU time that nobody is billed for, nano-cores × milliseconds. */
  cpu: bigint;
  /** GPU time, which is billed to the tenant; parts × milliseconds. */
  gpu: bigint;
}

/** What a tenant cluster said of its own nodes in a window that lowers what they cost. */
export interface PrivateNodeWord {
  /** Time of nodes, and of those that were down, milliseconds; with what late facts changed. */
  nodeMs: number;
  downMs: number;
  /** How often a node that was up went down. */
  flaps: number;
  /** Changes of labels after which a node costs less, or may, `g1: capacity type "on-demand" → "spot"`. */
  readonly relabelled: Set<string>;
}

/**
 * Where the GPU time of one node and model went in a window, in parts × milliseconds
 * (docs/explanation/gpus.md#the-balance-of-gpus): installed = billed + idle + downtime + system + unaccounted.
 */
export interface GpuBalance {
  readonly node: string;
  readonly type: string;
  /** What stands in the node, and what more than that was in use: labels may lag behind. */
  readonly installed: bigint;
  /** Charged as GPU hours: to the tenant of the whole node, or to those whose pods hold it. */
  readonly billed: bigint;
  readonly idle: bigint;
  readonly downtime: bigint;
  /** Held by what is nobody's: the operator's own pods, control planes, excluded tenant clusters, and what is unattributed. */
  readonly system: bigint;
  /** Charged to another tenant on a node that is billed whole; not part of the sum. */
  readonly overlap: bigint;
  /** Charged or credited for closed windows; not part of the sum. */
  readonly carried: bigint;
  /** What the charges and the holds disagree by; always zero. */
  readonly unaccounted: bigint;
}

/**
 * What a tenant had of one model in a window, in parts × milliseconds (docs/explanation/gpus.md#delivered-healthy-reserved-in-use).
 * Of all tenants and of none together, `delivered` is what is installed.
 */
export interface GpuShare {
  /** Undefined for what no tenant has. */
  readonly tenant: string | undefined;
  readonly type: string;
  readonly delivered: bigint;
  /** Of it, what is not down. */
  readonly healthy: bigint;
  /** Of what is delivered, what nobody else can have. */
  readonly reserved: bigint;
  /** Of what is healthy, what the tenant's own pods hold. */
  readonly inUse: bigint;
}

/** GPU time on one node and of one model that was charged in a window, parts × milliseconds. */
export interface GpuUse {
  /** As GPU hours. */
  billed: bigint;
  /** As downtime. */
  downtime: bigint;
  /** To another tenant than the one that is billed the whole node. */
  overlap: bigint;
  /** Of closed windows, charged or credited late; in none of the others. */
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

/** Lists an object as unattributed; the first reason of a window holds. */
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

/** Adds to what a pod of a control plane used. */
export function noteControlPlane(
  { controlPlane }: Pick<Diagnostics, 'controlPlane'>,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { cpu = 0n, gpu = 0n }: Partial<ControlPlaneUse>,
): void {
  const key = `${namespace}/${name}`;
  const known = controlPlane.get(key) ?? { cpu: 0n, gpu: 0n };
  controlPlane.set(key, { cpu: known.cpu + cpu, gpu: known.gpu + gpu });
}

/** Notes what was charged, for the window report's balance. */
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
