import type { Observation } from '../observation/observation.ts';
import type { Window } from '../model/window.ts';
import type { GpuBalance } from './gpu-balance.ts';
import type { GpuUse } from './gpu-use.ts';
import type { Tally } from './tally.ts';

/** What every rule family is given. All times are milliseconds since the epoch. */
export interface MeterInput {
  readonly window: Window;
  readonly observation: Observation;
  /**
   * The observation is what one tenant cluster's own API shows: what is on its nodes is billed as
   * `private_node`, and what is not on them is billed on this cluster or not at all (spec 1.1).
   */
  readonly ownNodes?: true;
  /** Late facts are settled back to here: the start of the first window that was ever metered. */
  readonly meteredFrom: number;
  /** The tenant clusters that closed windows knew of: those learnt up to this number. */
  readonly learntUntil: number;
  readonly settings: MeterSettings;
  readonly tally: Tally;
  readonly findings: Findings;
}

/** The settings that are the same for all tenant clusters. */
export interface MeterSettings {
  readonly region: string;
  readonly zone?: string;
  readonly regionFromNode: boolean;
  readonly defaultTenantClass?: string;
  /** GPU_RESOURCES, for pods whose node was never seen; nodes carry their own reading of it. */
  readonly gpuResources: readonly string[];
  /** VCLUSTER_NODE_LABEL, `key=%s`. */
  readonly dedicatedNodeLabel?: string;
  /** How long a usage sample holds at most. */
  readonly sampleHoldMs: number;
  /** Drivers whose devices are GPUs (DRA_GPU_DRIVERS). */
  readonly draGpuDrivers: readonly string[];
}

/** What a rule family found besides charges, for the window report. */
export interface Findings {
  /** `namespace/name` of objects that cannot be told whose they are. */
  readonly unattributed: Set<string>;
  /** Where pods had no usage sample although the basis needs one, by tenant cluster id. */
  readonly unsampled: Map<string, Unsampled>;
  /** Nodes that several tenant clusters have an equal claim to, with the ids of those. */
  readonly contested: Map<string, readonly string[]>;
  /** GPU time that was charged, by node name and GPU model. */
  readonly gpuUses: Map<string, Map<string, GpuUse>>;
  /** Where the GPU time of each node went. */
  readonly gpuBalances: GpuBalance[];
}

/** Pod time without samples: how much, and the stretch that it lies in, milliseconds. */
export interface Unsampled {
  readonly podMs: number;
  readonly from: number;
  readonly to: number;
}

/** One rule family: adds the charges of its metrics. */
export type Meter = (input: MeterInput) => void;

export function createFindings(): Findings {
  return {
    unattributed: new Set(),
    unsampled: new Map(),
    contested: new Map(),
    gpuUses: new Map(),
    gpuBalances: [],
  };
}
