import { gpuUnits, UNITS_PER_GPU } from '../../model/gpu-units.ts';

/** One device of a node: a full GPU or a share of one (docs/explanation/gpus.md#gpu-quantity). */
export interface GpuDevice {
  /** Base model, the dimension `gpu_type`: `NVIDIA-H100-80GB-HBM3`, or `unknown`. */
  readonly type: string;
  /** `gpu_profile`: `full`, `mig-1g.10gb`, `timeslice-4`, `mps-4`, `mig-1g.10gb-timeslice-2`. */
  readonly profile: string;
  /** How much of a GPU it is, in {@link UNITS_PER_GPU}. */
  readonly units: bigint;
}

/** Devices of one kind that are allocated to one pod or claim. */
export interface AllocatedGpus {
  readonly device: GpuDevice;
  /** Number of devices; informational, as the property `gpu_devices`. */
  readonly devices: number;
  /** Sum in {@link UNITS_PER_GPU}; below `devices × device.units` if claims share a device. */
  readonly units: bigint;
  /**
   * What is billed where each device counts as one (`gpuQuantity: devices`), in {@link
   * UNITS_PER_GPU}. Absent where `units` is billed.
   */
  readonly asDevices?: bigint;
  /** Percent of device cores that they may use, summed; absent where nothing limits cores. */
  readonly coresPct?: number;
  /** Why they count as this share of a device, for explanations; absent if the profile says it. */
  readonly sharedBy?: string;
}

/** The GPUs of one model in a node. Amounts are in {@link UNITS_PER_GPU}, except `devices`. */
export interface NodeGpus {
  readonly type: string;
  /** Physical GPUs, however they are partitioned. */
  readonly installed: bigint;
  /** The part of `installed` that cannot be allocated: a lost GPU, or all without a plugin. */
  readonly missing: bigint;
  /** Devices that the node advertises. */
  readonly devices: number;
}

export const FULL = 'full';
export const UNKNOWN_GPU = 'unknown';

/** A MIG profile as the plugin's resource names spell it: `1g.10gb+me` becomes `1g.10gb.me`. */
export function migProfile(profile: string): string {
  return `mig-${profile.replaceAll('+', '.').replaceAll(',', '.')}`;
}

/**
 * Returns the base model in a label or attribute. Spaces become `-`; the endings by which the
 * NVIDIA plugin marks shared and partitioned GPUs are removed.
 */
export function gpuModel(text: string): string {
  return sanitised(text)
    .replace(/-SHARED$/, '')
    .replace(/-MIG-[^-].*$/, '');
}

/** The profile that the MIG single strategy appends to the product label, `1g.10gb`, if any. */
export function migProfileInProduct(product: string): string | undefined {
  const profile = /-MIG-(\d.*?)(?:-SHARED)?$/.exec(sanitised(product))?.[1];
  return profile;
}

function sanitised(text: string): string {
  return text.trim().replaceAll(/\s+/g, '-');
}

const SLICES = 7;
/** Models that MIG divides into quarters instead of sevenths. */
const QUARTERED = /\bA30\b|RTX-PRO-6000/;

/** Number of compute slices of a model under MIG. */
export function migSlicesOf(type: string): number {
  return QUARTERED.test(type) ? 4 : SLICES;
}

/** Number of compute slices of a profile, 3 for `mig-3g.40gb`; undefined when its name has none. */
export function migSlicesIn(profile: string): number | undefined {
  const slices = Number(/^mig-(\d+)g\./.exec(profile)?.[1]);
  return slices > 0 ? slices : undefined;
}

/**
 * Returns a MIG device's part of its GPU, in {@link UNITS_PER_GPU}: its compute slices ÷ those of
 * the model. A profile without a number of slices counts as a full GPU.
 */
export function migUnits(type: string, profile: string): bigint {
  const all = migSlicesOf(type);
  const slices = migSlicesIn(profile);
  return slices === undefined || slices >= all ? UNITS_PER_GPU : gpuUnits(slices, all);
}
