import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { type GpuDevice, type AllocatedGpus, UNKNOWN_GPU } from '../timelines/gpu-device.ts';
import type { GpuFraction } from '../timelines/gpu-fraction.ts';
import type { GpuShares } from '../timelines/gpu-shares.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { GpuQuantity } from './meter.ts';

/** The profile of GPU parts that annotations request. */
const PROFILE = 'fraction';
/** The resource of the reservation pod whose GPU others share. */
const RESERVED = 'nvidia.com/gpu';

/**
 * Returns a pod's part of a GPU by the annotations of KAI Scheduler and Run:ai
 * (docs/explanation/gpus.md#kai-and-runai). Undefined where it requests none, or the node has no
 * GPU.
 */
export function fractionGpus(
  { fraction, groups = [] }: GpuShares,
  node: NodeState | undefined,
  quantity: GpuQuantity,
): AllocatedGpus | undefined {
  if (fraction === undefined || node?.gpus.length === 0) return undefined;
  const complete = node?.devices.get(RESERVED);
  const type = complete?.type ?? node?.gpuType ?? UNKNOWN_GPU;
  const [used, all] = partOf(fraction, node?.gpuMemory);
  const device: GpuDevice = { type, profile: PROFILE, units: complete?.units ?? UNITS_PER_GPU };
  const count = BigInt(fraction.count);
  return {
    device,
    devices: fraction.count,
    units: (count * device.units * used) / all,
    ...(quantity === 'devices' && { asDevices: count * UNITS_PER_GPU }),
    sharedBy: `${stated(fraction, node?.gpuMemory)}, ${paired(groups)}`,
  };
}

const NANOS = 1_000_000_000n;
const COMPLETE: readonly [bigint, bigint] = [1n, 1n];

/** Returns the part of a device; all of it where the device's memory is unknown. */
function partOf(
  { nanos, memory = 0 }: GpuFraction,
  all: number | undefined,
): readonly [used: bigint, all: bigint] {
  if (nanos !== undefined) return [BigInt(nanos), NANOS];
  return all === undefined || memory >= all ? COMPLETE : [BigInt(memory), BigInt(all)];
}

function stated({ nanos, memory, count }: GpuFraction, all: number | undefined): string {
  const part =
    nanos === undefined
      ? `gpu-memory ${memory} of ${all ?? 'unknown'} MiB`
      : `gpu-fraction ${nanos / Number(NANOS)}`;
  return count === 1 ? part : `${part} of each of ${count} devices`;
}

function paired(groups: readonly string[]): string {
  return groups.length === 0 ? 'in no group' : `group ${groups.slice(0, 4).join(', ')}`;
}
