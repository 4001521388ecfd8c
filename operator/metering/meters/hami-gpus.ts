import { larger } from '../../model/decimal.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { type AllocatedGpus, UNKNOWN_GPU } from '../timelines/gpu-device.ts';
import { HAMI_RESOURCE, type HamiDevice } from '../timelines/hami-node.ts';
import {
  HAMI_CORES,
  HAMI_MEMORY,
  HAMI_PERCENT,
  type HamiQuery,
  type HamiShare,
} from '../timelines/hami-pod.ts';
import type { PodState } from '../timelines/pod.ts';
import type { GpuQuantity } from './meter.ts';

/** The profile of HAMi's shares. */
const PROFILE = 'hami';

/**
 * Returns a pod's part of the GPUs that HAMi allocates (docs/explanation/gpus.md#hami). An
 * annotation lists its share of each device. It counts only for devices that the node has, and
 * never less than the pod's resources request, which nobody can change.
 */
export function hamiGpus(
  { gpuShares, requests }: PodState,
  devices: readonly HamiDevice[],
  quantity: GpuQuantity,
): readonly AllocatedGpus[] {
  const count = requests.extended.get(HAMI_RESOURCE) ?? 0;
  const { given = [], requested = [requestedInAll(requests.extended)] } = gpuShares?.hami ?? {};
  const byUuid = new Map(devices.map((device) => [device.uuid, device]));
  const namesMemory = requested.some(({ memory, percent }) => (memory ?? percent) !== undefined);
  const shares = sharesOf(given, byUuid, namesMemory);
  const likely = shares.length > 0 ? shares.map(({ device }) => device) : devices;
  const floor = requestedUnits(requested, leastMemory(likely));
  const units = shares.reduce((sum, share) => sum + share.units, 0n);
  const deviceCount = Math.max(count, shares.length);
  if (deviceCount === 0) return [];
  const type = likely[0]?.type ?? UNKNOWN_GPU;
  const device = { type, profile: PROFILE, units: UNITS_PER_GPU };
  return [
    {
      device,
      devices: deviceCount,
      units: larger(units, floor),
      coresPct: shares.length > 0 ? coresGiven(shares) : coresRequested(requested),
      ...(quantity === 'devices' && { asDevices: BigInt(deviceCount) * UNITS_PER_GPU }),
      sharedBy: units >= floor && shares.length > 0 ? asGiven(shares) : 'requested resources',
    },
  ];
}

/**
 * Returns the request of a pod without details, as an earlier release wrote it into the journal.
 * For one device the pod's resources limit it; several devices count as full ones.
 */
function requestedInAll(extended: ReadonlyMap<string, number>): HamiQuery {
  const count = extended.get(HAMI_RESOURCE) ?? 0;
  if (count !== 1) return { count };
  return {
    count,
    memory: extended.get(HAMI_MEMORY),
    percent: extended.get(HAMI_PERCENT),
    cores: extended.get(HAMI_CORES),
  };
}

interface HamiDeviceShare {
  readonly device: HamiDevice;
  readonly units: bigint;
  readonly memory: number;
  /** Percent of cores; without a limit all cores of the device. */
  readonly cores: number;
}

/** Returns shares by device: the containers' sum, or an init container's if that is more. */
function sharesOf(
  given: readonly HamiShare[],
  devices: ReadonlyMap<string, HamiDevice>,
  namesMemory: boolean,
): readonly HamiDeviceShare[] {
  return [...Map.groupBy(given, ({ uuid }) => uuid)].flatMap(([uuid, own]) => {
    const device = devices.get(uuid);
    if (device === undefined) return [];
    const of = (share: HamiShare): HamiDeviceShare => ({
      device,
      units: unitsOf(share, device, namesMemory),
      memory: share.memory,
      cores: share.cores === 0 ? device.cores : share.cores,
    });
    const together = own
      .filter(({ init }) => init !== true)
      .map(of)
      .reduce(added, nothing(device));
    return [
      own
        .filter(({ init }) => init === true)
        .map(of)
        .reduce(greater, together),
    ];
  });
}

function nothing(device: HamiDevice): HamiDeviceShare {
  return { device, units: 0n, memory: 0, cores: 0 };
}

function added(a: HamiDeviceShare, b: HamiDeviceShare): HamiDeviceShare {
  const units = a.units + b.units;
  return {
    device: a.device,
    units: units < UNITS_PER_GPU ? units : UNITS_PER_GPU,
    memory: a.memory + b.memory,
    cores: Math.min(a.device.cores, a.cores + b.cores),
  };
}

function greater(a: HamiDeviceShare, b: HamiDeviceShare): HamiDeviceShare {
  return b.units > a.units ? b : a;
}

/**
 * Returns the part of a device's memory, or of its cores where memory is not limited. A share of
 * all cores is the full device: no other pod gets any of it.
 */
function unitsOf(
  { memory, cores }: Pick<HamiShare, 'memory' | 'cores'>,
  device: HamiDevice,
  namesMemory: boolean,
): bigint {
  if (cores > 0 && cores >= device.cores) return UNITS_PER_GPU;
  if (memory > 0 && memory < device.memory) return ratio(memory, device.memory);
  if (memory > 0 && namesMemory) return UNITS_PER_GPU;
  return cores > 0 ? ratio(cores, device.cores) : UNITS_PER_GPU;
}

function ratio(used: number, all: number): bigint {
  return (UNITS_PER_GPU * BigInt(used)) / BigInt(all);
}

/** Returns the requests of such devices: the containers' sum, or an init container's if more. */
function requestedUnits(requested: readonly HamiQuery[], device: HamiDevice): bigint {
  let together = 0n;
  let before = 0n;
  for (const query of requested) {
    const units = BigInt(query.count) * requestedOf(query, device);
    if (query.init === true) before = larger(before, units);
    else together += units;
  }
  return larger(together, before);
}

/** Returns the part that one request asks for. MiB take precedence over percent, as in HAMi. */
function requestedOf(
  { memory = 0, percent = 0, cores = 0 }: HamiQuery,
  device: HamiDevice,
): bigint {
  const mib = memory > 0 ? memory : Math.floor((device.memory * Math.min(percent, 100)) / 100);
  return unitsOf({ memory: mib, cores }, device, memory > 0 || percent > 0);
}

function leastMemory(devices: readonly HamiDevice[]): HamiDevice {
  const none = { uuid: '', type: UNKNOWN_GPU, memory: 0, cores: 100 };
  return devices.toSorted((a, b) => a.memory - b.memory)[0] ?? none;
}

function coresGiven(shares: readonly HamiDeviceShare[]): number {
  return shares.reduce((sum, { cores }) => sum + cores, 0);
}

function coresRequested(requested: readonly HamiQuery[]): number {
  return requested.reduce((sum, { count, cores = 100 }) => sum + count * cores, 0);
}

const MOST_NAMED = 4;

function asGiven(shares: readonly HamiDeviceShare[]): string {
  const named = shares
    .slice(0, MOST_NAMED)
    .map(
      ({ device, memory, cores }) =>
        `${memory} of ${device.memory} MiB and ${cores} of ${device.cores} % of the cores of ${device.uuid}`,
    );
  const more = shares.length > MOST_NAMED ? [`${shares.length - MOST_NAMED} more`] : [];
  return `hami.io/vgpu-devices-allocated: ${[...named, ...more].join(', ')}`;
}
