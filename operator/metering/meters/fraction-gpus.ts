import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { type GpuDevice, type HeldGpus, UNKNOWN_GPU } from '../timelines/gpu-device.ts';
import type { GpuFraction } from '../timelines/gpu-fraction.ts';
import type { GpuShares } from '../timelines/gpu-shares.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { GpuQuantity } from './meter.ts';

/** The profile of parts of GPUs that annotations ask for. */
const PROFILE = 'fraction';
/** What the pod holds whose GPU the others share. */
const RESERVED = 'nvidia.com/gpu';

/**
 * What a pod holds by the annotations of KAI Scheduler and Run:ai (docs/explanation/gpus.md#kai-and-runai): a
 * part of each of so many devices. Undefined where it asks for none, or the node has no GPU.
 */
export function fractionGpus(
  { fraction, groups = [] }: GpuShares,
  node: NodeState | undefined,
  quantity: GpuQuantity,
): HeldGpus | undefined {
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

/** Memory of a device that nobody names is all of it. */
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
