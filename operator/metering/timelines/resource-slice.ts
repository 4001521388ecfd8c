import type { Projected, RawObject } from '../../kubernetes/source.ts';
import { FULL, migProfile } from './gpu-device.ts';
import {
  amountAt,
  countAt,
  identityOf,
  listAt,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST, createSharedValues, type KeyPart, keyOf } from './shared-values.ts';

/** The published fields of one device that bear on billing. */
export interface PublishedDevice {
  /** Unique in its pool. */
  readonly name: string;
  /** `full`, `mig-1g.10gb` (attributes joined by dots), or a partition style such as `cpx_nps4`. */
  readonly profile: string;
  /** The product in the driver's spelling: `NVIDIA H100 80GB HBM3`. */
  readonly product?: string;
  /** The physical GPU that it is or belongs to. Alternatives that overlap name the same GPU. */
  readonly gpu: string;
  /** Its capacities, nano-units by name; only for devices that several claims can share. */
  readonly capacity?: ReadonlyMap<string, bigint>;
  /** Its driver has tainted it, so it cannot be allocated. */
  readonly lost?: true;
}

/** Devices that a driver publishes in one slice. */
export interface DeviceSlice {
  readonly driver: string;
  readonly pool: string;
  /** Where the slices of a pool have different generations, only the highest counts. */
  readonly generation: number;
  /** Number of slices that make up the pool in this generation. */
  readonly sliceCount: number;
  /** The node of the devices; absent where several nodes can use them. */
  readonly node?: string;
  readonly devices: ReadonlyMap<string, PublishedDevice>;
}

/** The fields of a ResourceSlice that bear on billing. */
export interface ResourceSliceView extends Projected, DeviceSlice {
  readonly createdAt: number;
}

/** The limit of Kubernetes (`ResourceSliceMaxDevices`): its API server admits no more. */
const MOST_DEVICES = 128;

const sharedDevices = createSharedValues<PublishedDevice>();

/**
 * Reads the fields of a ResourceSlice that bear on billing; undefined for a malformed object. v1
 * and v1beta2 are alike; v1beta1 has a device's attributes one level deeper, under `basic`.
 */
export function projectResourceSlice(
  object: RawObject,
  api: Api = API_OF_HOST,
): ResourceSliceView | undefined {
  const metadata = recordAt(object, 'metadata');
  const identity = identityOf(object);
  const spec = recordAt(object, 'spec');
  const driver = textAt(spec, 'driver');
  const pool = recordAt(spec, 'pool');
  const poolName = textAt(pool, 'name');
  if (identity === undefined || driver === undefined || poolName === undefined) return undefined;
  const node = textAt(spec, 'nodeName');
  const listed = listAt(spec, 'devices').slice(0, MOST_DEVICES);
  const devices = listed.flatMap((device) => publishedDevice(device, driver, api));
  return {
    ...identity,
    namespace: '',
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    driver,
    pool: poolName,
    generation: countAt(pool, 'generation'),
    sliceCount: countAt(pool, 'resourceSliceCount'),
    devices: new Map(devices.map((device) => [device.name, device])),
    node,
  };
}

/** True when both publish the same devices. */
export function sameSlice(a: DeviceSlice, b: DeviceSlice): boolean {
  if (a.driver !== b.driver || a.pool !== b.pool || a.node !== b.node) return false;
  if (a.generation !== b.generation || a.sliceCount !== b.sliceCount) return false;
  if (a.devices.size !== b.devices.size) return false;
  return [...a.devices].every(([name, device]) => {
    const other = b.devices.get(name);
    return (
      other !== undefined && (other === device || keyOf(partsOf(other)) === keyOf(partsOf(device)))
    );
  });
}

/** Compares slices for {@link followRetained}; the smaller one counts during a change. */
export const SLICES = {
  isSame: sameSlice,
  least: (a: DeviceSlice, b: DeviceSlice): DeviceSlice => (a.devices.size < b.devices.size ? a : b),
};

/** Returns the slice of a view, without its metadata. */
export function sliceOf(view: ResourceSliceView): DeviceSlice {
  const { driver, pool, generation, sliceCount, node, devices } = view;
  const slice = { driver, pool, generation, sliceCount, devices };
  return node === undefined ? slice : { ...slice, node };
}

function publishedDevice(device: RawObject, driver: string, api: Api): readonly PublishedDevice[] {
  const name = textAt(device, 'name');
  if (name === undefined) return [];
  const details = 'basic' in device ? recordAt(device, 'basic') : device;
  const attribute = attributesOf(recordAt(details, 'attributes'), driver);
  const product = attribute('productName');
  const capacity = details['allowMultipleAllocations'] === true ? capacityOf(details) : undefined;
  const published: PublishedDevice = {
    name,
    profile: profileOf(attribute),
    gpu: GPU_IDS.map(attribute).find((id) => id !== undefined) ?? name,
    product,
    ...(capacity === undefined || capacity.size === 0 ? {} : { capacity }),
    ...(listAt(details, 'taints').some(preventsScheduling) ? { lost: true } : {}),
  };
  return [sharedDevices(api, partsOf(published), () => published)];
}

/**
 * Attributes that name the physical GPU, of a partition and of a full GPU: NVIDIA's uuid, AMD's PCI
 * address, or the PCI address as Kubernetes standardises it.
 */
const GPU_IDS: readonly string[] = [
  'parentUUID',
  'uuid',
  'parentPciAddr',
  'pciAddr',
  'resource.kubernetes.io/pciBusID',
];

/** NVIDIA: `type: mig` with `profile`. AMD: `type: amdgpu-partition` with `partitionProfile`. */
function profileOf(attribute: (name: string) => string | undefined): string {
  const type = attribute('type');
  const mig = attribute('profile');
  if (type === 'mig' && mig !== undefined) return migProfile(mig);
  const partition = attribute('partitionProfile');
  if (type === 'amdgpu-partition' && partition !== undefined) return partition;
  return FULL;
}

/** Reads attributes that are texts. A name without a domain is the driver's own. */
function attributesOf(attributes: RawObject, driver: string): (name: string) => string | undefined {
  return (name) => {
    const qualified = name.includes('/') ? name : `${driver}/${name}`;
    return (
      textAt(recordAt(attributes, name), 'string') ??
      textAt(recordAt(attributes, qualified), 'string')
    );
  };
}

function capacityOf(details: RawObject): ReadonlyMap<string, bigint> {
  const capacities = recordAt(details, 'capacity');
  const amounts = new Map<string, bigint>();
  for (const name of Object.keys(capacities).toSorted()) {
    const amount = amountAt(recordAt(capacities, name), 'value');
    if (amount !== undefined) amounts.set(name, amount);
  }
  return amounts;
}

/** Whether a taint keeps pods away; the effect None does not. */
function preventsScheduling(taint: RawObject): boolean {
  const effect = textAt(taint, 'effect');
  return effect === 'NoSchedule' || effect === 'NoExecute';
}

/** All fields by which devices differ. */
function partsOf(device: PublishedDevice): readonly KeyPart[] {
  const { name, profile, product, gpu, capacity, lost } = device;
  const amounts = [...(capacity ?? [])].flatMap(([key, amount]) => [key, String(amount)]);
  return [name, profile, product, gpu, lost, ...amounts];
}
