import { larger } from '../../model/decimal.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { type HeldGpus, UNKNOWN_GPU } from '../timelines/gpu-device.ts';
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

/** The profile of what HAMi gives out. */
const PROFILE = 'hami';

/**
 * What a pod holds of a node's GPUs that HAMi gives out (docs/explanation/gpus.md#hami): of each device the
 * part that it was given, which is what an annotation says. The annotation is believed of devices that
 * the node has, and never below what the pod's resources ask for, which nobody can change.
 */
export function hamiGpus(
  { gpuShares, requests }: PodState,
  devices: readonly HamiDevice[],
  quantity: GpuQuantity,
): readonly HeldGpus[] {
  const count = requests.extended.get(HAMI_RESOURCE) ?? 0;
  const { given = [], requested = [requestedInAll(requests.extended)] } = gpuShares?.hami ?? {};
  const byUuid = new Map(devices.map((device) => [device.uuid, device]));
  const namesMemory = requested.some(({ memory, percent }) => (memory ?? percent) !== undefined);
  const shares = sharesOf(given, byUuid, namesMemory);
  const likely = shares.length > 0 ? shares.map(({ device }) => device) : devices;
  const floor = requestedParts(requested, leastMemory(likely));
  const units = shares.reduce((sum, share) => sum + share.units, 0n);
  const held = Math.max(count, shares.length);
  if (held === 0) return [];
  const type = likely[0]?.type ?? UNKNOWN_GPU;
  const device = { type, profile: PROFILE, units: UNITS_PER_GPU };
  return [
    {
      device,
      devices: held,
      units: larger(units, floor),
      coresPct: shares.length > 0 ? coresGiven(shares) : coresRequested(requested),
      ...(quantity === 'devices' && { asDevices: BigInt(held) * UNITS_PER_GPU }),
      sharedBy:
        units >= floor && shares.length > 0 ? asGiven(shares) : 'what its resources ask for',
    },
  ];
}

/**
 * What a pod asks for that says no more of it, as one that an earlier release wrote into the journal:
 * of one device so much as all of its resources say, of several the whole devices.
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

/** What a pod holds of one device. */
interface DeviceShare {
  readonly device: HamiDevice;
  readonly units: bigint;
  readonly memory: number;
  /** Percent; without a limit all of the device's. */
  readonly cores: number;
}

/** By device: what containers hold together, or an init container before them if that is more. */
function sharesOf(
  given: readonly HamiShare[],
  devices: ReadonlyMap<string, HamiDevice>,
  namesMemory: boolean,
): readonly DeviceShare[] {
  return [...Map.groupBy(given, ({ uuid }) => uuid)].flatMap(([uuid, own]) => {
    const device = devices.get(uuid);
    if (device === undefined) return [];
    const of = (share: HamiShare): DeviceShare => ({
      device,
      units: partsOf(share, device, namesMemory),
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

function nothing(device: HamiDevice): DeviceShare {
  return { device, units: 0n, memory: 0, cores: 0 };
}

function added(a: DeviceShare, b: DeviceShare): DeviceShare {
  const units = a.units + b.units;
  return {
    device: a.device,
    units: units < UNITS_PER_GPU ? units : UNITS_PER_GPU,
    memory: a.memory + b.memory,
    cores: Math.min(a.device.cores, a.cores + b.cores),
  };
}

function greater(a: DeviceShare, b: DeviceShare): DeviceShare {
  return b.units > a.units ? b : a;
}

/**
 * The part of a device's memory, or of its cores where memory is not limited; nobody else is given a
 * device whose cores are all taken.
 */
function partsOf(
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

/** What containers ask for together, or one before them if that is more, of devices such as this. */
function requestedParts(requested: readonly HamiQuery[], device: HamiDevice): bigint {
  let together = 0n;
  let before = 0n;
  for (const query of requested) {
    const units = BigInt(query.count) * requestedOf(query, device);
    if (query.init === true) before = larger(before, units);
    else together += units;
  }
  return larger(together, before);
}

/** MiB go before percent, as in HAMi. */
function requestedOf(
  { memory = 0, percent = 0, cores = 0 }: HamiQuery,
  device: HamiDevice,
): bigint {
  const mib = memory > 0 ? memory : Math.floor((device.memory * Math.min(percent, 100)) / 100);
  return partsOf({ memory: mib, cores }, device, memory > 0 || percent > 0);
}

function leastMemory(devices: readonly HamiDevice[]): HamiDevice {
  const none = { uuid: '', type: UNKNOWN_GPU, memory: 0, cores: 100 };
  return devices.toSorted((a, b) => a.memory - b.memory)[0] ?? none;
}

function coresGiven(shares: readonly DeviceShare[]): number {
  return shares.reduce((sum, { cores }) => sum + cores, 0);
}

function coresRequested(requested: readonly HamiQuery[]): number {
  return requested.reduce((sum, { count, cores = 100 }) => sum + count * cores, 0);
}

const MOST_NAMED = 4;

function asGiven(shares: readonly DeviceShare[]): string {
  const named = shares
    .slice(0, MOST_NAMED)
    .map(
      ({ device, memory, cores }) =>
        `${memory} of ${device.memory} MiB and ${cores} of ${device.cores} % of the cores of ${device.uuid}`,
    );
  const more = shares.length > MOST_NAMED ? [`${shares.length - MOST_NAMED} more`] : [];
  return `hami.io/vgpu-devices-allocated: ${[...named, ...more].join(', ')}`;
}
