import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import {
  FULL,
  type GpuDevice,
  gpuModel,
  type HeldGpus,
  migParts,
  migProfile,
  UNKNOWN_GPU,
} from '../timelines/gpu-device.ts';
import { partitionParts } from '../timelines/node-devices.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import type { PublishedDevice } from '../timelines/resource-slice.ts';
import { keyOf } from '../timelines/shared-values.ts';
import type { ClaimUse } from './claim-use.ts';
import type { DeviceCatalogue } from './device-catalogue.ts';
import { shareOf } from './device-share.ts';
import type { GpuQuantity } from './meter.ts';

/**
 * What the claim's devices of the listed drivers come to, devices of a kind together
 * (docs/explanation/gpus.md#resource-claims).
 */
export function claimedGpus(
  { allocation, holders }: ClaimUse,
  node: NodeState | undefined,
  drivers: readonly string[],
  published: (device: AllocatedDevice) => ReturnType<DeviceCatalogue['find']>,
  quantity: GpuQuantity = 'equivalents',
): readonly HeldGpus[] {
  const kinds = new Map<string, HeldGpus>();
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
    ? migParts(productOf(known) ?? type, profile)
    : (partitionParts(profile) ?? UNITS_PER_GPU);
  return { type, profile, units };
}

/**
 * The model that the node's labels name goes before what the driver says of the device, so that a
 * model has one name however its GPUs are given out. An instance type names a machine, not a GPU.
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
 * Of a device that nobody has published, since its driver withdrew it before this was ever watched,
 * the name alone is known: NVIDIA's says `gpu-0-mig-1g10gb-19-0`.
 */
function profileInName(device: string): string {
  const [, slices, memory] = /-mig-(\d+g)(\d+gb)/.exec(device) ?? [];
  return slices === undefined || memory === undefined ? FULL : migProfile(`${slices}.${memory}`);
}
