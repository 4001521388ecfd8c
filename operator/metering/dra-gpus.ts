import type { HeldGpus, NodeGpus } from '../observation/gpu-device.ts';
import type { MeterInput } from './meter.ts';

/** GPUs that a pod holds through resource claims during `[from, to)`. */
export interface ClaimedStretch {
  readonly from: number;
  readonly to: number;
  readonly held: readonly HeldGpus[];
  /** Extended resources that a claim serves, so that they are not counted by the pod's requests as well. */
  readonly served: ReadonlySet<string>;
}

/** GPUs that a node offers through resource slices during `[from, to)`. */
export interface OfferedStretch {
  readonly from: number;
  readonly to: number;
  readonly gpus: readonly NodeGpus[];
}

/** What Dynamic Resource Allocation says about GPUs (design 7, DRA). */
export interface DraGpus {
  /**
   * Stretches without holes. `nodeType` is the model that the node's labels name, `unknown` when
   * none does. `billed` asks for the time as closed windows billed it, before late facts.
   */
  claimedBy(
    podUid: string,
    nodeType: string,
    from: number,
    to: number,
    billed: boolean,
  ): readonly ClaimedStretch[];
  /** Stretches without holes. */
  offeredOn(
    nodeName: string,
    nodeType: string,
    from: number,
    to: number,
  ): readonly OfferedStretch[];
}

const NOTHING_SERVED: ReadonlySet<string> = new Set();

/** The GPUs of claims and slices in the observation. */
export function draGpusOf(_input: MeterInput): DraGpus {
  return {
    claimedBy: (_podUid, _nodeType, from, to) => [{ from, to, held: [], served: NOTHING_SERVED }],
    offeredOn: (_nodeName, _nodeType, from, to) => [{ from, to, gpus: [] }],
  };
}
