import { gpuUnits, UNITS_PER_GPU } from '../../model/gpu-units.ts';

/** What one device of a node is: a whole GPU, or a share of one (docs/explanation/gpus.md#gpu-quantity). */
export interface GpuDevice {
  /** Base model, the dimension `gpu_type`: `NVIDIA-H100-80GB-HBM3`, or `unknown`. */
  readonly type: string;
  /**
   * The dimension `gpu_profile`: `full`, `mig-1g.10gb`, `timeslice-4`, `mps-4`,
   * `mig-1g.10gb-timeslice-2`.
   */
  readonly profile: string;
  /** How much of a GPU it is, in parts ({@link UNITS_PER_GPU}). */
  readonly units: bigint;
}

/** Devices of one kind that a pod holds together. */
export interface HeldGpus {
  readonly device: GpuDevice;
  /** How many; informational, as in the property `gpu_devices`. */
  readonly devices: number;
  /**
   * What they come to, in parts. Not always `devices × device.parts`: a device may be shared among
   * claims.
   */
  readonly units: bigint;
  /**
   * What is billed of them where each device counts as one (`gpuQuantity: devices`), in parts of a
   * whole; absent where it is `parts`.
   */
  readonly asDevices?: bigint;
  /** Percent of a device's cores that they may use, summed; absent where nothing limits cores. */
  readonly coresPct?: number;
  /** How a share of a device came about, for explanations; absent where the device says it all. */
  readonly sharedBy?: string;
}

/** The GPUs of one model that a node has. All amounts but `devices` are parts. */
export interface NodeGpus {
  readonly type: string;
  /** Physical GPUs, whatever way they are cut. */
  readonly installed: bigint;
  /** Of those, what cannot be allocated: a lost GPU, or all of them while no plugin offers any. */
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
 * The base model in a label or attribute: spaces become `-`, and the endings with which the NVIDIA
 * plugin marks shared and cut GPUs go.
 */
export function gpuModel(text: string): string {
  return sanitised(text)
    .replace(/-SHARED$/, '')
    .replace(/-MIG-[^-].*$/, '');
}

/**
 * The profile that the MIG single strategy hides in the product label, `1g.10gb`; undefined where
 * there is none.
 */
export function migProfileInProduct(product: string): string | undefined {
  const profile = /-MIG-(\d.*?)(?:-SHARED)?$/.exec(sanitised(product))?.[1];
  return profile;
}

function sanitised(text: string): string {
  return text.trim().replaceAll(/\s+/g, '-');
}

const SLICES = 7;
/** Models whose MIG cuts are quarters instead of sevenths. */
const QUARTERED = /\bA30\b|RTX-PRO-6000/;

/** Compute slices that a model has under MIG. */
export function migSlicesOf(type: string): number {
  return QUARTERED.test(type) ? 4 : SLICES;
}

/** Compute slices of a profile, `mig-3g.40gb` having three; undefined when it does not say. */
export function migSlicesIn(profile: string): number | undefined {
  const slices = Number(/^mig-(\d+)g\./.exec(profile)?.[1]);
  return slices > 0 ? slices : undefined;
}

/**
 * How much of its GPU a MIG device is: compute slices ÷ slices of the model; one that does not say
 * counts whole.
 */
export function migParts(type: string, profile: string): bigint {
  const all = migSlicesOf(type);
  const slices = migSlicesIn(profile);
  return slices === undefined || slices >= all ? UNITS_PER_GPU : gpuUnits(slices, all);
}
