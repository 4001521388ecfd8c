/** A way in which GPUs are given out: a node that does so, and what one pod asks of it. */
export interface GpuMode {
  /** The dimension `gpu_profile` of its pods. */
  readonly profile: string;
  readonly node: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Capacity and allocatable of the node. */
  readonly devices: Readonly<Record<string, string>>;
  /** What a pod asks for: always nine GPUs' worth; nothing where a claim gives it. */
  readonly requests: Readonly<Record<string, string>>;
}

/**
 * Every pod holds nine GPUs, however they are cut: then a second of it is a whole number of
 * billionths of a GPU hour, and the nine decimals of an event lose nothing.
 */
export const GPUS_PER_POD = 9;
export const GPU_NANOS_PER_SECOND = 2_500_000n;

const H100 = 'NVIDIA-H100-80GB-HBM3';
const A10G = 'NVIDIA-A10G';

function nvidia(
  product: string,
  count: number,
  more: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  return {
    'nvidia.com/gpu.product': product,
    'nvidia.com/gpu.count': String(count),
    'nvidia.com/gpu.replicas': '1',
    'nvidia.com/gpu.sharing-strategy': 'none',
    ...more,
  };
}

const sharedBy = (strategy: string, replicas: number): Readonly<Record<string, string>> => ({
  'nvidia.com/gpu.replicas': String(replicas),
  'nvidia.com/gpu.sharing-strategy': strategy,
});

export const DRA_PROFILE = 'full';
export const DRA_NODE = 'accuracy-dra';
/** As many devices as one resource slice may have, in nines. */
export const DRA_DEVICES = 126;

/** All of them; the one whose pods ask for nothing is served by claims. */
export const GPU_MODES: readonly GpuMode[] = [
  {
    profile: 'full',
    node: 'accuracy-full',
    labels: nvidia(H100, 720),
    devices: { 'nvidia.com/gpu': '720' },
    requests: { 'nvidia.com/gpu': '9' },
  },
  {
    profile: 'mig-1g.10gb',
    node: 'accuracy-mig-mixed',
    labels: nvidia(H100, 360, {
      'nvidia.com/gpu.replicas': '0',
      'nvidia.com/mig.strategy': 'mixed',
      'nvidia.com/mig-1g.10gb.count': '2520',
    }),
    devices: { 'nvidia.com/gpu': '0', 'nvidia.com/mig-1g.10gb': '2520' },
    requests: { 'nvidia.com/mig-1g.10gb': '63' },
  },
  {
    profile: 'mig-1g.10gb',
    node: 'accuracy-mig-single',
    labels: nvidia(`${H100}-MIG-1g.10gb`, 2520, { 'nvidia.com/mig.strategy': 'single' }),
    devices: { 'nvidia.com/gpu': '2520' },
    requests: { 'nvidia.com/gpu': '63' },
  },
  {
    profile: 'mig-1g.10gb-timeslice-2',
    node: 'accuracy-mig-sliced',
    labels: nvidia(H100, 360, {
      'nvidia.com/gpu.replicas': '0',
      'nvidia.com/mig.strategy': 'mixed',
      'nvidia.com/mig-1g.10gb.count': '2520',
      'nvidia.com/mig-1g.10gb.replicas': '2',
      'nvidia.com/mig-1g.10gb.sharing-strategy': 'time-slicing',
    }),
    devices: { 'nvidia.com/gpu': '0', 'nvidia.com/mig-1g.10gb.shared': '5040' },
    requests: { 'nvidia.com/mig-1g.10gb.shared': '126' },
  },
  {
    profile: 'timeslice-4',
    node: 'accuracy-sliced',
    labels: nvidia(`${A10G}-SHARED`, 360, sharedBy('time-slicing', 4)),
    devices: { 'nvidia.com/gpu': '1440' },
    requests: { 'nvidia.com/gpu': '36' },
  },
  {
    profile: 'timeslice-4',
    node: 'accuracy-renamed',
    labels: nvidia(A10G, 360, sharedBy('time-slicing', 4)),
    devices: { 'nvidia.com/gpu': '0', 'nvidia.com/gpu.shared': '1440' },
    requests: { 'nvidia.com/gpu.shared': '36' },
  },
  {
    profile: 'mps-4',
    node: 'accuracy-mps',
    labels: nvidia(`${A10G}-SHARED`, 360, sharedBy('mps', 4)),
    devices: { 'nvidia.com/gpu': '1440' },
    requests: { 'nvidia.com/gpu': '36' },
  },
  {
    profile: 'full',
    node: 'accuracy-amd',
    labels: { 'amd.com/gpu.product-name': 'AMD_Instinct_MI300X_OAM' },
    devices: { 'amd.com/gpu': '360' },
    requests: { 'amd.com/gpu': '9' },
  },
  {
    profile: 'cpx_nps4',
    node: 'accuracy-amd-cpx',
    labels: { 'amd.com/gpu.product-name': 'AMD_Instinct_MI300X_OAM' },
    devices: { 'amd.com/cpx_nps4': '2880' },
    requests: { 'amd.com/cpx_nps4': '72' },
  },
  {
    profile: DRA_PROFILE,
    node: DRA_NODE,
    labels: nvidia(H100, DRA_DEVICES),
    devices: {},
    requests: {},
  },
];

/** The operator's setting for these. */
export const GPU_RESOURCES = 'nvidia.com/gpu,amd.com/gpu,amd.com/cpx_nps4';

/** A full-GPU node that goes down with pods on it; there is one after the other. */
export function flakyMode(number: number): GpuMode {
  return {
    profile: 'full',
    node: `accuracy-flaky-${number}`,
    labels: nvidia(H100, 720),
    devices: { 'nvidia.com/gpu': '720' },
    requests: { 'nvidia.com/gpu': '9' },
  };
}
