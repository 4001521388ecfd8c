import { PARTS_PER_GPU } from '../model/gpu-parts.ts';
import {
  FULL,
  type GpuDevice,
  gpuModel,
  type HeldGpus,
  migParts,
  migProfile,
  UNKNOWN_GPU,
} from '../observation/gpu-device.ts';
import { partitionParts } from '../observation/node-devices.ts';
import type { NodeState } from '../observation/node-state.ts';
import type { Observation } from '../observation/observation.ts';
import type { AllocatedDevice } from '../observation/resource-claim.ts';
import type { DeviceSlice, PublishedDevice } from '../observation/resource-slice.ts';
import { keyOf } from '../observation/shared-values.ts';
import { type Span, splitAtEdges } from '../observation/timeline.ts';
import type { ClaimUse } from './claim-use.ts';
import type { GpuQuantity } from './meter.ts';

/** The devices that a node had during `[from, to)`. */
export interface PublishedStretch {
  readonly from: number;
  readonly to: number;
  readonly gpus: readonly PublishedGpu[];
}

/** One physical GPU, by the device or one of the devices that it is published as. */
export interface PublishedGpu {
  readonly driver: string;
  readonly device: PublishedDevice;
}

/** What drivers publish of their devices, over time. */
export interface DeviceCatalogue {
  /**
   * What a device was at a moment. A driver that restarts withdraws its slices while its devices are
   * in use: then what it last said of the device holds, else what it said first.
   */
  find(device: AllocatedDevice, at: number): PublishedDevice | undefined;
  /** The physical GPUs that are tied to a node, of these drivers; stretches without holes. */
  on(
    node: string,
    drivers: readonly string[],
    from: number,
    to: number,
  ): readonly PublishedStretch[];
}

type Slices = readonly Span<DeviceSlice>[];

export function createDeviceCatalogue(slices: Observation['resourceSlices']): DeviceCatalogue {
  const pools = new Map<string, Span<DeviceSlice>[]>();
  const poolsOfNode = new Map<string, Set<string>>();
  for (const timeline of slices.inNamespace('')) {
    for (const span of timeline.spans) {
      const { driver, pool, node } = span.state;
      const key = poolKey(driver, pool);
      pools.set(key, [...(pools.get(key) ?? []), span]);
      if (node === undefined) continue;
      poolsOfNode.set(node, (poolsOfNode.get(node) ?? new Set()).add(key));
    }
  }
  return {
    find: ({ driver, pool, device }, at) => {
      const known = pools.get(poolKey(driver, pool)) ?? [];
      const best = known
        .filter(({ state }) => state.devices.has(device))
        .toSorted((a, b) => distance(a, at) - distance(b, at) || newerFirst(a, b))[0];
      return best?.state.devices.get(device);
    },
    on: (node, drivers, from, to) => {
      const own = [...(poolsOfNode.get(node) ?? [])].flatMap((key) => [pools.get(key) ?? []]);
      const listed = own.filter(([first]) => first && drivers.includes(first.state.driver));
      return splitAtEdges(from, to, listed.flat()).map(([start, end]) => ({
        from: start,
        to: end,
        gpus: listed.flatMap((pool) => gpusAt(pool, node, start)),
      }));
    },
  };
}

function poolKey(driver: string, pool: string): string {
  return keyOf([driver, pool]);
}

/** How far a span is from a moment; one that lies ahead is farther than any in the past. */
function distance({ from, to }: Span<DeviceSlice>, at: number): number {
  if (from <= at && at < to) return -1;
  return to <= at ? at - to : Number.MAX_SAFE_INTEGER + from - at;
}

function newerFirst(a: Span<DeviceSlice>, b: Span<DeviceSlice>): number {
  return b.state.generation - a.state.generation || b.from - a.from;
}

/**
 * The physical GPUs of a pool on a node at a moment. Only the newest generation of slices holds;
 * while a new one is being published, and is not whole yet, the older slices hold beside it.
 */
function gpusAt(pool: Slices, node: string, at: number): readonly PublishedGpu[] {
  const present = pool.filter(({ from, to }) => from <= at && at < to);
  const newest = Math.max(...present.map(({ state }) => state.generation));
  const ofNewest = present.filter(({ state }) => state.generation === newest);
  const wanted = ofNewest[0]?.state.sliceCount ?? 0;
  const valid = ofNewest.length >= wanted ? ofNewest : present;
  const gpus = new Map<string, PublishedGpu>();
  for (const { state } of valid) {
    const { driver } = state;
    if (state.node !== node) continue;
    for (const device of state.devices.values()) {
      // A GPU is lost when all that it is published as is.
      if (device.lost === true && gpus.has(device.gpu)) continue;
      gpus.set(device.gpu, { driver, device });
    }
  }
  return [...gpus.values()];
}

/**
 * What the claim's devices of the listed drivers come to, devices of a kind together
 * (docs/metering.md#resource-claims).
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
    const shareIn = (whole: bigint): bigint =>
      shareOf(whole, allocated, known, holders[index] ?? 1);
    const key = keyOf([device.type, device.profile]);
    const before = kinds.get(key);
    kinds.set(key, {
      device,
      devices: (before?.devices ?? 0) + 1,
      parts: (before?.parts ?? 0n) + shareIn(device.parts),
      ...(quantity === 'devices' && {
        asDevices: (before?.asDevices ?? 0n) + shareIn(PARTS_PER_GPU),
      }),
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
  const parts = profile.startsWith('mig-')
    ? migParts(productOf(known) ?? type, profile)
    : (partitionParts(profile) ?? PARTS_PER_GPU);
  return { type, profile, parts };
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

/**
 * A share counts for what it consumes of the device's memory, or of its first capacity; where
 * capacities do not say, all that hold the device count for the same. Shares never exceed the device.
 */
function shareOf(
  parts: bigint,
  allocated: AllocatedDevice,
  known: PublishedDevice | undefined,
  holders: number,
): bigint {
  if (allocated.share === undefined) return parts;
  const { consumed } = allocated;
  const capacity = known?.capacity;
  const common = [...(consumed?.keys() ?? [])].filter((name) => (capacity?.get(name) ?? 0n) > 0n);
  const measure = common.find((name) => name === 'memory' || name.endsWith('/memory')) ?? common[0];
  const all = measure === undefined ? undefined : capacity?.get(measure);
  const used = measure === undefined ? undefined : consumed?.get(measure);
  if (all === undefined || used === undefined) return parts / BigInt(holders);
  return used >= all ? parts : (parts * used) / all;
}
