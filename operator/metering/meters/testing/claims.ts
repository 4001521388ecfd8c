import type { RawObject } from '../../../kubernetes/source.ts';
import { iso, LONG_AGO, SYNCED_LABELS } from './objects.ts';

/**
 * Resource claims and slices as the API server sends them in version v1, reduced to what the tests
 * vary.
 */

export const NVIDIA = 'gpu.nvidia.com';
export const AMD = 'gpu.amd.com';
export const PRODUCT = 'NVIDIA H100 80GB HBM3';

type Attributes = Readonly<Record<string, string>>;

/** A device as a driver publishes it; attributes are texts. */
export function device(name: string, attributes: Attributes, more: RawObject = {}): RawObject {
  const texts = Object.entries(attributes).map(([key, value]) => [key, { string: value }]);
  return { name, attributes: Object.fromEntries(texts), ...more };
}

/** A full NVIDIA GPU. */
export function fullGpu(index: number, attributes: Attributes = {}): RawObject {
  const uuid = `GPU-${index}`;
  return device(`gpu-${index}`, { type: 'gpu', uuid, productName: PRODUCT, ...attributes });
}

/** A MIG device of an NVIDIA GPU, existing or only possible. */
export function migDevice(gpu: number, profile: string, placement = 0): RawObject {
  const plain = profile.replace('.', '').replace('+', '');
  const parentUUID = `GPU-${gpu}`;
  return device(`gpu-${gpu}-mig-${plain}-19-${placement}`, {
    type: 'mig',
    profile,
    parentUUID,
    productName: PRODUCT,
  });
}

export interface SliceFixture {
  readonly name?: string;
  readonly driver?: string;
  readonly pool?: string;
  readonly node?: string;
  readonly generation?: number;
  readonly sliceCount?: number;
  readonly devices?: readonly RawObject[];
}

/** By default the pool of node `n1`: eight full GPUs. */
export function slice(fixture: SliceFixture = {}): RawObject {
  const { name = 'slice', driver = NVIDIA, pool = 'n1', generation = 1, sliceCount = 1 } = fixture;
  const devices = fixture.devices ?? Array.from({ length: 8 }, (_, index) => fullGpu(index));
  return {
    metadata: { uid: `uid-${name}`, name, creationTimestamp: iso(LONG_AGO) },
    spec: {
      driver,
      pool: { name: pool, generation, resourceSliceCount: sliceCount },
      nodeName: fixture.node ?? pool,
      devices,
    },
  };
}

export interface ResourceClaimFixture {
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Device names, or complete results. Null: not allocated. */
  readonly devices?: readonly (string | RawObject)[] | null;
  /** Names of the pods that it is reserved for. */
  readonly pods?: readonly string[];
  readonly reservedFor?: readonly RawObject[];
  readonly node?: string;
  /** The pod for which the cluster made it from a template. */
  readonly madeFor?: string;
  /** Its requests; by default for as many devices as were allocated. */
  readonly requests?: readonly RawObject[];
}

/** By default allocated with `gpu-0` on node `n1`, for the pod of its own name. */
export function resourceClaim(fixture: ResourceClaimFixture = {}): RawObject {
  const { name = 'c', devices = ['gpu-0'], pods = [name], node = 'n1' } = fixture;
  const reservedFor = pods.map((pod) => ({ resource: 'pods', name: pod, uid: `uid-${pod}` }));
  const selector = { key: 'metadata.name', operator: 'In', values: [node] };
  return {
    metadata: {
      uid: `uid-claim-${name}`,
      name,
      namespace: 'tenant-a',
      creationTimestamp: iso(LONG_AGO),
      labels: fixture.labels ?? SYNCED_LABELS,
      ...(fixture.madeFor !== undefined && {
        annotations: { 'resource.kubernetes.io/pod-claim-name': 'gpu' },
        ownerReferences: [
          {
            apiVersion: 'v1',
            kind: 'Pod',
            name: fixture.madeFor,
            uid: `uid-${fixture.madeFor}`,
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      }),
    },
    spec: fixture.requests === undefined ? {} : { devices: { requests: fixture.requests } },
    status:
      devices === null
        ? {}
        : {
            allocation: {
              devices: { results: devices.map(resultOf) },
              nodeSelector: { nodeSelectorTerms: [{ matchFields: [selector] }] },
            },
            reservedFor: [...reservedFor, ...(fixture.reservedFor ?? [])],
          },
  };
}

/** One entry of a claim's allocation results. */
export function result(name: string, more: RawObject = {}): RawObject {
  return { request: 'gpu', driver: NVIDIA, pool: 'n1', device: name, ...more };
}

function resultOf(given: string | RawObject): RawObject {
  return typeof given === 'string' ? result(given) : given;
}
