import { PARTS_PER_GPU } from '../model/gpu-parts.ts';
import { type GpuDevice, migSlicesIn, migSlicesOf, type NodeGpus } from './gpu-device.ts';
import type { NodeView } from './node.ts';
import { type NamedDevices, singleMigProfile } from './node-devices.ts';
import { textAt } from './raw-fields.ts';

/** What device plugins advertise of one vendor's GPUs, in parts. */
interface Advertised {
  readonly capacity: bigint;
  readonly allocatable: bigint;
  readonly devices: number;
  /** Cut by MIG, so that some of the silicon may belong to no device. */
  readonly cut: boolean;
}

/**
 * The GPUs of a node that its device plugins offer or its labels count. A node is not without GPUs
 * because one resource of it reads zero: all kinds are looked at (docs/metering.md#downtime).
 */
export function installedGpus(node: NodeView, named: NamedDevices): readonly NodeGpus[] {
  const amd = advertised(node, named, (resource) => resource.startsWith('amd.com/'));
  const other = advertised(node, named, (resource) => !resource.startsWith('amd.com/'));
  const rows = [
    rowOf(named.type, other, countedGpus(node, named.type)),
    rowOf(named.amdType, amd, 0n),
  ].filter(({ installed }) => installed > 0n);
  const [first, second] = rows;
  if (first === undefined || second === undefined || first.type !== second.type) return rows;
  return [
    {
      type: first.type,
      installed: first.installed + second.installed,
      missing: first.missing + second.missing,
      devices: first.devices + second.devices,
    },
  ];
}

function advertised(
  node: NodeView,
  { devices }: NamedDevices,
  ofVendor: (resource: string) => boolean,
): Advertised {
  let total: Advertised = { capacity: 0n, allocatable: 0n, devices: 0, cut: false };
  for (const [resource, { capacity, allocatable }] of node.extended) {
    const device = ofVendor(resource) ? devices.get(resource) : undefined;
    if (device === undefined) continue;
    total = {
      capacity: total.capacity + BigInt(capacity) * device.parts,
      allocatable: total.allocatable + BigInt(Math.min(allocatable, capacity)) * device.parts,
      devices: total.devices + capacity,
      cut: total.cut || (capacity > 0 && isCut(device)),
    };
  }
  return total;
}

/**
 * Physical GPUs are whole ones: the count of the labels or, where they count less, what is
 * advertised, rounded up. Missing is what is registered but not allocatable, what is counted but
 * not registered, and everything where nothing can be allocated.
 */
function rowOf(
  type: string,
  { capacity, allocatable, devices, cut }: Advertised,
  counted: bigint,
): NodeGpus {
  const whole = ((capacity + PARTS_PER_GPU - 1n) / PARTS_PER_GPU) * PARTS_PER_GPU;
  const installed = counted > whole ? counted : whole;
  const unregistered = cut ? 0n : installed - capacity;
  const missing = allocatable === 0n ? installed : capacity - allocatable + unregistered;
  return { type, installed, missing, devices };
}

/** `nvidia.com/gpu.count` in parts; under the MIG single strategy it counts MIG devices. */
function countedGpus(node: NodeView, type: string): bigint {
  const count = Number(textAt(node.labels, 'nvidia.com/gpu.count') ?? 0);
  if (!Number.isInteger(count) || count <= 0) return 0n;
  const profile = singleMigProfile(node.labels);
  const slices = profile === undefined ? undefined : migSlicesIn(profile);
  const perGpu = slices === undefined ? 1 : Math.max(1, Math.floor(migSlicesOf(type) / slices));
  return BigInt(Math.ceil(count / perGpu)) * PARTS_PER_GPU;
}

function isCut(device: GpuDevice): boolean {
  return device.profile.startsWith('mig-');
}
