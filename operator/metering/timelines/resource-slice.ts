import type { Projected, RawObject } from '../../kubernetes/source.ts';
import { FULL, migProfile } from './gpu-device.ts';
import {
  amountAt,
  countAt,
  listAt,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST, createSharedValues, type KeyPart, keyOf } from './shared-values.ts';

/** What a driver publishes of one device, as far as it bears on billing. */
export interface PublishedDevice {
  /** Unique in its pool. */
  readonly name: string;
  /** `full`, `mig-1g.10gb` (attributes joined by dots), or a partition style such as `cpx_nps4`. */
  readonly profile: string;
  /** The product as the driver spells it: `NVIDIA H100 80GB HBM3`. */
  readonly product?: string;
  /** Which physical GPU it is, or is a part of; candidates that overlap name the same one. */
  readonly gpu: string;
  /** What its shares consume, nano-units by name; only of devices that several claims may be given. */
  readonly capacity?: ReadonlyMap<string, bigint>;
  /** Its driver has tainted it, so that nothing can be given it any more. */
  readonly lost?: true;
}

/** Devices that a driver publishes together. */
export interface DeviceSlice {
  readonly driver: string;
  readonly pool: string;
  /** Where slices of a pool have different ones, only those with the highest hold. */
  readonly generation: number;
  /** How many slices of this generation make the whole pool. */
  readonly sliceCount: number;
  /** The node that the devices are tied to; absent where several nodes may use them. */
  readonly node?: string;
  readonly devices: ReadonlyMap<string, PublishedDevice>;
}

/** What of a ResourceSlice bears on billing. */
export interface ResourceSliceView extends Projected, DeviceSlice {
  readonly createdAt: number;
}

/** Kubernetes' own limit (`ResourceSliceMaxDevices`): its API server admits no more. */
const MOST_DEVICES = 128;

const sharedDevices = createSharedValues<PublishedDevice>();

/**
 * Takes out of a ResourceSlice what bears on billing. v1 and v1beta2 are alike; v1beta1 has a
 * device's attributes one level deeper, under `basic`.
 */
export function projectResourceSlice(
  object: RawObject,
  api: Api = API_OF_HOST,
): ResourceSliceView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  const spec = recordAt(object, 'spec');
  const driver = textAt(spec, 'driver');
  const pool = recordAt(spec, 'pool');
  const poolName = textAt(pool, 'name');
  if (uid === undefined || name === undefined) return undefined;
  if (driver === undefined || poolName === undefined) return undefined;
  const node = textAt(spec, 'nodeName');
  const listed = listAt(spec, 'devices').slice(0, MOST_DEVICES);
  const devices = listed.flatMap((device) => publishedDevice(device, driver, api));
  return {
    uid,
    name,
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

/** True when both publish the same. */
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

/** What has changes of slices wait for the one that offers more. */
export const SLICES = {
  isSame: sameSlice,
  least: (a: DeviceSlice, b: DeviceSlice): DeviceSlice => (a.devices.size < b.devices.size ? a : b),
};

/** The slice of a view. */
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
    ...(listAt(details, 'taints').some(keepsAway) ? { lost: true } : {}),
  };
  return [sharedDevices(api, partsOf(published), () => published)];
}

/**
 * A part names the GPU that it is cut out of, a whole GPU itself: by NVIDIA's uuid, AMD's PCI
 * address, or the PCI address as Kubernetes standardises it.
 */
const GPU_IDS: readonly string[] = [
  'parentUUID',
  'uuid',
  'parentPciAddr',
  'pciAddr',
  'resource.kubernetes.io/pciBusID',
];

/** NVIDIA says `type: mig` with a `profile`, AMD `type: amdgpu-partition` with a `partitionProfile`. */
function profileOf(attribute: (name: string) => string | undefined): string {
  const type = attribute('type');
  const mig = attribute('profile');
  if (type === 'mig' && mig !== undefined) return migProfile(mig);
  const partition = attribute('partitionProfile');
  if (type === 'amdgpu-partition' && partition !== undefined) return partition;
  return FULL;
}

/** Reads texts; a name without a domain is one of the driver's own. */
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

/** The effect None only says something. */
function keepsAway(taint: RawObject): boolean {
  const effect = textAt(taint, 'effect');
  return effect === 'NoSchedule' || effect === 'NoExecute';
}

/** All that tells devices apart. */
function partsOf(device: PublishedDevice): readonly KeyPart[] {
  const { name, profile, product, gpu, capacity, lost } = device;
  const amounts = [...(capacity ?? [])].flatMap(([key, amount]) => [key, String(amount)]);
  return [name, profile, product, gpu, lost, ...amounts];
}
