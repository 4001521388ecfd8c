import type { Observation } from '../observation/observation.ts';
import type { AllocatedDevice } from '../observation/resource-claim.ts';
import type { DeviceSlice, PublishedDevice } from '../observation/resource-slice.ts';
import type { Span } from '../observation/timeline.ts';

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
      const edges = listed.flat().flatMap((span) => [span.from, span.to]);
      const inside = edges.filter((edge) => edge > from && edge < to);
      const cuts = [from, ...new Set(inside.toSorted((a, b) => a - b))];
      return cuts.map((cut, index) => ({
        from: cut,
        to: cuts[index + 1] ?? to,
        gpus: listed.flatMap((pool) => gpusAt(pool, node, cut)),
      }));
    },
  };
}

/** Drivers and pools have names without spaces. */
function poolKey(driver: string, pool: string): string {
  return `${driver} ${pool}`;
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
