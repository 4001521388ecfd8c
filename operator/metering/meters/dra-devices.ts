import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import {
  FULL,
  type GpuDevice,
  gpuModel,
  type AllocatedGpus,
  migUnits,
  migProfile,
  UNKNOWN_GPU,
} from '../timelines/gpu-device.ts';
import { partitionUnits } from '../timelines/node-devices.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import type { PublishedDevice } from '../timelines/resource-slice.ts';
import { keyOf } from '../timelines/shared-values.ts';
import type { ClaimUse } from './claim-use.ts';
import type { DeviceCatalogue } from './device-catalogue.ts';
import { shareOf } from './device-share.ts';
import type { GpuQuantity } from './meter.ts';

/** The claim's devices of listed drivers, by kind (docs/explanation/gpus.md#resource-claims). */
export function claimedGpus(
  { allocation, holders }: ClaimUse,
  node: NodeState | undefined,
  drivers: readonly string[],
  published: (device: AllocatedDevice) => ReturnType<DeviceCatalogue['find']>,
  quantity: GpuQuantity = 'equivalents',
): readonly AllocatedGpus[] {
  const kinds = new Map<string, AllocatedGpus>();
  for (const [index, allocated] of allocation.devices.entries()) {
    if (!drivers.includes(allocated.driver)) continue;
    const known = published(allocated);
    const device = kindOf(allocated, known, node);
    const share = shareOf(allocated, known?.capacity, holders[index] ?? []);
    const key = keyOf([device.type, device.profile]);
    const before = kinds.get(key);
    const sharedBy = before?.sharedBy ?? share.by;
    kinds.set(key, {
      device,
      devices: (before?.devices ?? 0) + 1,
      units: (before?.units ?? 0n) + share.of(device.units),
      ...(quantity === 'devices' && {
        asDevices: (before?.asDevices ?? 0n) + share.of(UNITS_PER_GPU),
      }),
      sharedBy,
    });
  }
  return [...kinds.values()];
}

function kindOf(
  allocated: AllocatedDevice,
  known: PublishedDevice | undefined,
  node: NodeState | undefined,
): GpuDevice {
  const type = modelOnNode(node, allocated.driver, known);
  const profile = known?.profile ?? profileInName(allocated.device);
  const units = profile.startsWith('mig-')
    ? migUnits(productOf(known) ?? type, profile)
    : (partitionUnits(profile) ?? UNITS_PER_GPU);
  return { type, profile, units };
}

/**
 * Returns the model of a device: that of the node's labels, else the driver's. So a model has one
 * name, however its GPUs are allocated. An instance type names a machine, not a GPU.
 */
export function modelOnNode(
  node: NodeState | undefined,
  driver: string,
  known: PublishedDevice | undefined,
): string {
  const product = productOf(known);
  const amd = driver === 'gpu.amd.com' ? node?.devices.get('amd.com/gpu')?.type : undefined;
  const named = amd ?? node?.gpuType ?? UNKNOWN_GPU;
  const machine = node?.instanceType === undefined ? UNKNOWN_GPU : gpuModel(node.instanceType);
  return named === UNKNOWN_GPU || named === machine ? (product ?? named) : named;
}

function productOf(known: PublishedDevice | undefined): string | undefined {
  return known?.product === undefined ? undefined : gpuModel(known.product);
}

/**
 * Reads the profile from a device's name, `gpu-0-mig-1g10gb-19-0` for NVIDIA. For devices whose
 * driver withdrew them before the operator watched.
 */
function profileInName(device: string): string {
  const [, slices, memory] = /-mig-(\d+g)(\d+gb)/.exec(device) ?? [];
  return slices === undefined || memory === undefined ? FULL : migProfile(`${slices}.${memory}`);
}
