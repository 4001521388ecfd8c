/** A way in which GPUs are given out: a node that does so, and what one pod asks of it. */
export interface GpuMode {
  /** The dimension `gpu_profile` of its pods. */
  readonly profile: string;
  readonly node: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Capacity and allocatable of the node. */
  readonly devices: Readonly<Record<string, string>>;
  /** What a pod asks for: always nine GPUs' worth; nothing where a claim or its annotations give it. */
  readonly requests: Readonly<Record<string, string>>;
  /** Of the node, as a device plugin writes them. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Of a pod, as its scheduler writes them; the slot says which devices it gets. */
  readonly podAnnotations?: (slot: number) => Readonly<Record<string, string>>;
  /** How many pods can be there at once, where each gets devices by their names. */
  readonly slots?: number;
  readonly claims?: ClaimedDevices;
}

/** How a driver gives out the devices of its node. */
export interface ClaimedDevices {
  /** How many there are, which is at most what one resource slice may have. */
  readonly devices: number;
  /** How many one claim gets. */
  readonly perClaim: number;
  /** How many claims have a device together, by its `shares`: none of its memory is consumed. */
  readonly sharedBy: number;
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

const DEVICES = 126;

const MIB = 81_920;
/** Two pods have half of each of eighteen. */
const HAMI_HALVES = 2 * GPUS_PER_POD;
const HAMI_SLOTS = 20;
const HAMI_DEVICES = (HAMI_SLOTS / 2) * HAMI_HALVES;

function hamiHalves(slot: number): string {
  const first = Math.floor(slot / 2) * HAMI_HALVES;
  const halves = Array.from(
    { length: HAMI_HALVES },
    (_, index) => `GPU-${first + index},NVIDIA,${MIB / 2},0:`,
  );
  return `${halves.join('')};`;
}

/** All of them. */
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
    profile: 'hami',
    node: 'accuracy-hami',
    labels: nvidia(H100, HAMI_DEVICES),
    devices: { 'nvidia.com/gpu': String(HAMI_DEVICES * 10) },
    requests: { 'nvidia.com/gpu': String(HAMI_HALVES), 'nvidia.com/gpumem': String(MIB / 2) },
    annotations: {
      'hami.io/node-nvidia-register': JSON.stringify(
        Array.from({ length: HAMI_DEVICES }, (_, index) => ({
          id: `GPU-${index}`,
          count: 10,
          devmem: MIB,
          devcore: 100,
          type: 'NVIDIA H100 80GB HBM3',
          health: true,
        })),
      ),
    },
    slots: HAMI_SLOTS,
    podAnnotations: (slot) => ({ 'hami.io/vgpu-devices-allocated': hamiHalves(slot) }),
  },
  {
    profile: 'fraction',
    node: 'accuracy-kai',
    labels: nvidia(H100, 720, { 'nvidia.com/gpu.memory': String(MIB) }),
    devices: { 'nvidia.com/gpu': '720' },
    requests: {},
    podAnnotations: () => ({ 'gpu-fraction': '0.75', 'gpu-fraction-num-devices': '12' }),
  },
  {
    profile: 'fraction',
    node: 'accuracy-runai',
    labels: nvidia(H100, 720, { 'nvidia.com/gpu.memory': String(MIB) }),
    devices: { 'nvidia.com/gpu': '720' },
    requests: {},
    podAnnotations: () => ({
      'gpu-memory': String(MIB / 4),
      'gpu-fraction-num-devices': '36',
    }),
  },
  {
    profile: 'full',
    node: 'accuracy-dra',
    labels: nvidia(H100, DEVICES),
    devices: {},
    requests: {},
    slots: DEVICES / GPUS_PER_POD,
    claims: { devices: DEVICES, perClaim: GPUS_PER_POD, sharedBy: 1 },
  },
  {
    profile: 'full',
    node: 'accuracy-shares',
    labels: nvidia(H100, DEVICES),
    devices: {},
    requests: {},
    slots: DEVICES / GPUS_PER_POD,
    claims: { devices: DEVICES, perClaim: 2 * GPUS_PER_POD, sharedBy: 2 },
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
