import type { ApiClient } from './api-client.ts';
import type { SimulatedPod, SimulatedTenantCluster } from './cloud.ts';
import { DRA_NODE } from './nodes.ts';
import { type KubeObject, objectPath } from './objects.ts';
import { syncedMeta } from './synced.ts';

/** GPUs given out through Dynamic Resource Allocation, as NVIDIA's driver publishes them and the scheduler allocates them. */

const DRIVER = 'gpu.nvidia.com';
const API_VERSION = 'resource.k8s.io/v1';
const PRODUCT = 'NVIDIA H100 80GB HBM3';
/** The name that a pod's containers know its claim by, and of the claim's only request. */
const NAME = 'gpu';

/** Three whole GPUs, and one that is cut in two with a seventh to spare. */
const DEVICES: readonly Record<string, unknown>[] = [
  ...[0, 1, 2].map((index) => device(`gpu-${index}`, '80Gi', { type: 'gpu', uuid: uuid(index) })),
  ...[0, 4].map((placement) =>
    device(`gpu-3-mig-3g40gb-9-${placement}`, '40Gi', {
      type: 'mig',
      profile: '3g.40gb',
      uuid: `MIG-${placement}`,
      parentUUID: uuid(3),
    }),
  ),
];

/** Publishes the devices of the one node that has a driver for claims. */
export async function ensureResourceSlices(api: ApiClient): Promise<void> {
  await api.ensure({
    apiVersion: API_VERSION,
    kind: 'ResourceSlice',
    metadata: { name: `${DRA_NODE}-${DRIVER}` },
    spec: {
      driver: DRIVER,
      nodeName: DRA_NODE,
      pool: { name: DRA_NODE, generation: 1, resourceSliceCount: 1 },
      devices: DEVICES,
    },
  });
}

/** What a pod's spec and its container say of the claim; nothing for pods without devices. */
export function claimReferences(
  cluster: SimulatedTenantCluster,
  pod: SimulatedPod,
): { readonly spec: Record<string, unknown>; readonly resources: Record<string, unknown> } {
  if (pod.devices === undefined) return { spec: {}, resources: {} };
  const { name } = claimMeta(cluster, pod);
  return {
    spec: { resourceClaims: [{ name: NAME, resourceClaimName: name }] },
    resources: { claims: [{ name: NAME }] },
  };
}

/** The claim of a pod that is bound: allocated with the pod's devices and reserved for it. */
export async function ensureResourceClaim(
  api: ApiClient,
  cluster: SimulatedTenantCluster,
  pod: SimulatedPod,
  bound: KubeObject,
): Promise<void> {
  const { devices } = pod;
  if (devices === undefined) return;
  const exactly = { deviceClassName: DRIVER, count: devices.length };
  const { object } = await api.ensure({
    apiVersion: API_VERSION,
    kind: 'ResourceClaim',
    metadata: claimMeta(cluster, pod),
    spec: { devices: { requests: [{ name: NAME, exactly }] } },
  });
  if (object.status?.['allocation'] !== undefined) return;
  const { name, uid } = bound.metadata;
  const node = { key: 'metadata.name', operator: 'In', values: [pod.node] };
  await api.patch(`${objectPath(object)}/status`, {
    status: {
      allocation: {
        devices: {
          results: devices.map((each) => ({
            request: NAME,
            driver: DRIVER,
            pool: pod.node,
            device: each,
          })),
        },
        nodeSelector: { nodeSelectorTerms: [{ matchFields: [node] }] },
      },
      reservedFor: [{ resource: 'pods', name, uid }],
    },
  });
}

function claimMeta(cluster: SimulatedTenantCluster, pod: SimulatedPod): KubeObject['metadata'] {
  return syncedMeta(cluster, `${pod.name}-${NAME}`, pod.namespace);
}

function device(
  name: string,
  memory: string,
  attributes: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const texts = Object.entries({ ...attributes, productName: PRODUCT });
  return {
    name,
    attributes: Object.fromEntries(texts.map(([key, value]) => [key, { string: value }])),
    capacity: { memory: { value: memory } },
  };
}

function uuid(index: number): string {
  return `GPU-00000000-0000-0000-0000-00000000000${index}`;
}
