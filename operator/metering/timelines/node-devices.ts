import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import {
  FULL,
  type GpuDevice,
  gpuModel,
  migUnits,
  migProfile,
  migProfileInProduct,
  UNKNOWN_GPU,
} from './gpu-device.ts';
import type { NodeView } from './node.ts';
import { textAt } from '../../kubernetes/raw-fields.ts';

type Labels = NodeView['labels'];

/** The GPU resources of a node by name, and the GPU models in its labels. */
export interface NamedDevices {
  readonly type: string;
  readonly amdType: string;
  readonly devices: ReadonlyMap<string, GpuDevice>;
}

/** The first label that is present wins (docs/explanation/gpus.md#gpu-names). */
const TYPE_LABELS = [
  'nvidia.com/gpu.product',
  'nvidia.com/gpu.machine',
  'accelerator',
  'cloud.google.com/gke-accelerator',
  'k8s.amazonaws.com/accelerator',
  'node.kubernetes.io/instance-type',
];
/** AMD resources try these labels first. */
const AMD_TYPE_LABELS = ['amd.com/gpu.product-name', 'beta.amd.com/gpu.product-name'];

export const SHARED_GPU = 'nvidia.com/gpu.shared';
const MIG_RESOURCE = /^nvidia\.com\/mig-(.+?)(\.shared)?$/;
const MIG_LABEL = /^(nvidia\.com\/mig-.+)\.count$/;
const AMD_PARTITION = /^([sdtqc]px)_nps\d+$/;
const PARTITIONS: ReadonlyMap<string, bigint> = new Map([
  ['spx', 1n],
  ['dpx', 2n],
  ['tpx', 3n],
  ['qpx', 4n],
  ['cpx', 8n],
]);

/** Limit on kinds of MIG devices of one node; NVIDIA's largest GPUs have about twenty. */
const MOST_MIG_NAMES = 64;

/**
 * Returns the device of every GPU resource that the node has or may serve: the configured full
 * GPUs, and always MIG and shared ones (docs/explanation/gpus.md#gpu-quantity). {@link migDevice}
 * reads MIG resources that the node never advertised.
 */
export function gpuDevicesOf(node: NodeView, gpuResources: readonly string[]): NamedDevices {
  const type = typeOf(node.labels, TYPE_LABELS);
  const amdType = typeOf(node.labels, [...AMD_TYPE_LABELS, ...TYPE_LABELS]);
  const announced = Object.keys(node.labels).flatMap((label) => MIG_LABEL.exec(label)?.[1] ?? []);
  const names = new Set([...gpuResources, SHARED_GPU, ...node.extended.keys(), ...announced]);
  const devices = new Map<string, GpuDevice>();
  let mig = 0;
  for (const name of [...names].toSorted()) {
    if (MIG_RESOURCE.test(name)) mig += 1;
    if (mig > MOST_MIG_NAMES && MIG_RESOURCE.test(name)) continue;
    const device = deviceOf(node, name, gpuResources, { type, amdType });
    if (device !== undefined) devices.set(name, device);
  }
  return { type, amdType, devices };
}

/** Reads a MIG device from a resource name, `nvidia.com/mig-1g.10gb`; undefined for other names. */
export function migDevice(type: string, resource: string): GpuDevice | undefined {
  const name = MIG_RESOURCE.exec(resource)?.[1];
  if (name === undefined) return undefined;
  const profile = migProfile(name);
  return { type, profile, units: migUnits(type, profile) };
}

/** Returns the MIG profile of every GPU of a node under the single strategy, or undefined. */
export function singleMigProfile(labels: Labels): string | undefined {
  const inProduct = migProfileInProduct(textAt(labels, 'nvidia.com/gpu.product') ?? '');
  const profile = inProduct ?? textAt(labels, 'cloud.google.com/gke-gpu-partition-size');
  return profile === undefined ? undefined : migProfile(profile);
}

function deviceOf(
  node: NodeView,
  name: string,
  gpuResources: readonly string[],
  types: { readonly type: string; readonly amdType: string },
): GpuDevice | undefined {
  const { type, amdType } = types;
  const mig = migDevice(type, name);
  if (mig !== undefined) return shared(mig, migSharing(node, name));
  if (name === SHARED_GPU) return shared(nvidiaDevice(node.labels, type), gpuSharing(node, name));
  if (!gpuResources.includes(name)) return undefined;
  if (name.startsWith('amd.com/')) return amdDevice(node.labels, amdType, name);
  return shared(nvidiaDevice(node.labels, type), gpuSharing(node, name));
}

function nvidiaDevice(labels: Labels, type: string): GpuDevice {
  const profile = singleMigProfile(labels);
  if (profile === undefined) return { type, profile: FULL, units: UNITS_PER_GPU };
  return { type, profile, units: migUnits(type, profile) };
}

/** The plugin's mixed strategy names the partition in the resource, the single one in a label. */
function amdDevice(labels: Labels, type: string, resource: string): GpuDevice {
  const named = resource.slice('amd.com/'.length);
  const label =
    textAt(labels, 'amd.com/gpu.compute-memory-partition') ??
    textAt(labels, 'beta.amd.com/gpu.compute-memory-partition');
  const partition = AMD_PARTITION.test(named) ? named : (label ?? '');
  const units = partitionUnits(partition) ?? UNITS_PER_GPU;
  return { type, profile: units === UNITS_PER_GPU ? FULL : partition, units };
}

/** An AMD partition's part of its GPU, {@link UNITS_PER_GPU}; undefined unless like `cpx_nps4`. */
export function partitionUnits(partition: string): bigint | undefined {
  const count = PARTITIONS.get(AMD_PARTITION.exec(partition)?.[1] ?? '');
  return count === undefined ? undefined : UNITS_PER_GPU / count;
}

/** How one device is shared, and by how many. */
interface Sharing {
  readonly by: 'timeslice' | 'mps';
  readonly replicas: number;
}

function shared(device: GpuDevice, sharing: Sharing | undefined): GpuDevice {
  if (sharing === undefined) return device;
  const { by, replicas } = sharing;
  const suffix = `${by}-${replicas}`;
  return {
    type: device.type,
    profile: device.profile === FULL ? suffix : `${device.profile}-${suffix}`,
    units: device.units / BigInt(replicas),
  };
}

function gpuSharing(node: NodeView, resource: string): Sharing | undefined {
  const { labels } = node;
  const gke = textAt(labels, 'cloud.google.com/gke-gpu-sharing-strategy');
  const gkeClients = textAt(labels, 'cloud.google.com/gke-max-shared-clients-per-gpu');
  const product = textAt(labels, 'nvidia.com/gpu.product') ?? '';
  return sharingOf({
    strategy: textAt(labels, 'nvidia.com/gpu.sharing-strategy') ?? gke,
    replicas: textAt(labels, 'nvidia.com/gpu.replicas') ?? gkeClients,
    surely: resource === SHARED_GPU || product.endsWith('-SHARED'),
    devices: node.extended.get(resource)?.capacity ?? 0,
    cut: Number(textAt(labels, 'nvidia.com/gpu.count')),
  });
}

function migSharing(node: NodeView, resource: string): Sharing | undefined {
  const { labels } = node;
  const plain = resource.replace(/\.shared$/, '');
  return sharingOf({
    strategy: textAt(labels, `${plain}.sharing-strategy`),
    replicas: textAt(labels, `${plain}.replicas`),
    surely: plain !== resource,
    devices: node.extended.get(resource)?.capacity ?? 0,
    cut: Number(textAt(labels, `${plain}.count`)),
  });
}

/**
 * Reads how a device is shared (docs/explanation/gpus.md#gpu-names). Replicas 0 and 1 mean not
 * shared; an unknown number of replicas is advertised devices ÷ physical ones.
 */
function sharingOf(stated: {
  readonly strategy: string | undefined;
  readonly replicas: string | undefined;
  /** The name of the resource or product marks it as shared. */
  readonly surely: boolean;
  readonly devices: number;
  readonly cut: number;
}): Sharing | undefined {
  const { strategy, surely } = stated;
  if (strategy === 'none' && !surely) return undefined;
  const by = strategy === 'mps' ? 'mps' : 'timeslice';
  const replicas = Number(stated.replicas ?? NaN);
  if (Number.isInteger(replicas) && replicas > 1) return { by, replicas };
  if (!surely && (stated.replicas !== undefined || strategy === undefined)) return undefined;
  const derived = stated.devices / stated.cut;
  return Number.isInteger(derived) && derived > 1 ? { by, replicas: derived } : undefined;
}

/** The plugin writes `unknown` when it could not read the machine's model. */
function typeOf(labels: Labels, names: readonly string[]): string {
  for (const name of names) {
    const value = textAt(labels, name);
    if (value !== undefined && value !== UNKNOWN_GPU) return gpuModel(value);
  }
  return UNKNOWN_GPU;
}
