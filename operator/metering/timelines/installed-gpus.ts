import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import {
  type GpuDevice,
  gpuModel,
  migSlicesIn,
  migSlicesOf,
  type NodeGpus,
  UNKNOWN_GPU,
} from './gpu-device.ts';
import { HAMI_RESOURCE, type HamiDevice } from './hami-node.ts';
import type { NodeView } from './node.ts';
import { type NamedDevices, singleMigProfile } from './node-devices.ts';
import { textAt } from '../../kubernetes/raw-fields.ts';

/** GPUs of one vendor that device plugins advertise, in {@link UNITS_PER_GPU}. */
interface Advertised {
  readonly capacity: bigint;
  readonly allocatable: bigint;
  readonly devices: number;
  /** MIG partitions them, so that some of the silicon may belong to no device. */
  readonly cut: boolean;
}

/**
 * Returns the GPUs of a node by model, from all its device plugins and labels. A resource that
 * reads zero does not make them vanish (docs/explanation/nodes.md#downtime).
 */
export function installedGpus(
  node: NodeView,
  named: NamedDevices,
  hami?: readonly HamiDevice[],
): readonly NodeGpus[] {
  const amd = advertised(node, named, (resource) => resource.startsWith('amd.com/'));
  const other = advertised(
    node,
    named,
    (resource) =>
      !resource.startsWith('amd.com/') && (hami === undefined || resource !== HAMI_RESOURCE),
  );
  const byHami = Map.groupBy(hami ?? [], ({ type }) => type);
  const counted = hami === undefined || byHami.has(named.type);
  const rows = [
    rowOf(
      named.type,
      together(other, registered(node, byHami.get(named.type) ?? [])),
      counted ? countedGpus(node, named.type) : 0n,
    ),
    rowOf(named.amdType, amd, 0n),
    ...[...byHami]
      .filter(([type]) => type !== named.type)
      .map(([type, devices]) => rowOf(type, registered(node, devices), 0n)),
  ].filter(({ installed }) => installed > 0n);
  return [...Map.groupBy(rows, ({ type }) => type)].map(([type, own]) => ({
    type,
    installed: own.reduce((sum, { installed }) => sum + installed, 0n),
    missing: own.reduce((sum, { missing }) => sum + missing, 0n),
    devices: own.reduce((sum, { devices }) => sum + devices, 0),
  }));
}

/**
 * Returns the GPUs of a node that HAMi allocates; undefined where HAMi does not serve it. Their
 * model is that of the node's labels, else what HAMi registers: an instance type names a machine,
 * not a GPU.
 */
export function hamiOf(
  { hami, labels }: NodeView,
  { type }: NamedDevices,
): readonly HamiDevice[] | undefined {
  const machine = textAt(labels, 'node.kubernetes.io/instance-type');
  const named = type !== UNKNOWN_GPU && (machine === undefined || type !== gpuModel(machine));
  return hami?.map((device) => ({
    ...device,
    type: named || device.type === '' ? type : device.type,
  }));
}

/**
 * Physical GPUs that HAMi registers; its resource counts shares instead. None can be allocated
 * while that resource reads zero.
 */
function registered(node: NodeView, devices: readonly HamiDevice[]): Advertised {
  const served = node.extended.get(HAMI_RESOURCE)?.allocatable !== 0;
  const healthy = served ? devices.filter(({ lost }) => lost !== true) : [];
  return {
    capacity: BigInt(devices.length) * UNITS_PER_GPU,
    allocatable: BigInt(healthy.length) * UNITS_PER_GPU,
    devices: devices.length,
    cut: false,
  };
}

function together(a: Advertised, b: Advertised): Advertised {
  return {
    capacity: a.capacity + b.capacity,
    allocatable: a.allocatable + b.allocatable,
    devices: a.devices + b.devices,
    cut: a.cut || b.cut,
  };
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
      capacity: total.capacity + BigInt(capacity) * device.units,
      allocatable: total.allocatable + BigInt(Math.min(allocatable, capacity)) * device.units,
      devices: total.devices + capacity,
      cut: total.cut || (capacity > 0 && isCut(device)),
    };
  }
  return total;
}

/**
 * Returns the GPUs of one model.
 * 1. Installed: the label's count, or what is advertised if that is more, rounded up to full GPUs.
 * 2. Missing: what is advertised but not allocatable, plus what is counted but not advertised.
 * 3. Everything is missing where nothing can be allocated.
 */
function rowOf(
  type: string,
  { capacity, allocatable, devices, cut }: Advertised,
  counted: bigint,
): NodeGpus {
  const complete = ((capacity + UNITS_PER_GPU - 1n) / UNITS_PER_GPU) * UNITS_PER_GPU;
  const installed = counted > complete ? counted : complete;
  const unregistered = cut ? 0n : installed - capacity;
  const missing = allocatable === 0n ? installed : capacity - allocatable + unregistered;
  return { type, installed, missing, devices };
}

/** `nvidia.com/gpu.count` in {@link UNITS_PER_GPU}. With the MIG single strategy: MIG devices. */
function countedGpus(node: NodeView, type: string): bigint {
  const count = Number(textAt(node.labels, 'nvidia.com/gpu.count') ?? 0);
  if (!Number.isInteger(count) || count <= 0) return 0n;
  const profile = singleMigProfile(node.labels);
  const slices = profile === undefined ? undefined : migSlicesIn(profile);
  const perGpu = slices === undefined ? 1 : Math.max(1, Math.floor(migSlicesOf(type) / slices));
  return BigInt(Math.ceil(count / perGpu)) * UNITS_PER_GPU;
}

function isCut(device: GpuDevice): boolean {
  return device.profile.startsWith('mig-');
}
