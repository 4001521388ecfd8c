import type { ApiClient, Body } from '../simulator/api-client.ts';
import { apiTime, type KubeObject, objectPath } from '../simulator/objects.ts';
import { DRA_DEVICES, DRA_NODE, GPU_MODES } from './modes.ts';

const DRIVER = 'gpu.nvidia.com';
const UNREACHABLE = 'node.kubernetes.io/unreachable';

export const NODE_CORES = 72;
export const NODE_GIB = 576;

/** Makes the nodes of every GPU mode, and what the driver for claims publishes. */
export async function ensureGpuNodes(api: ApiClient): Promise<void> {
  for (const { node, labels, devices } of GPU_MODES) {
    await addNode(api, { name: node, labels, devices });
  }
  const devices = Array.from({ length: DRA_DEVICES }, (_, index) => ({
    name: `gpu-${index}`,
    attributes: { type: { string: 'gpu' }, productName: { string: 'NVIDIA H100 80GB HBM3' } },
  }));
  await api.ensure({
    apiVersion: 'resource.k8s.io/v1',
    kind: 'ResourceSlice',
    metadata: { name: `${DRA_NODE}-${DRIVER}` },
    spec: {
      driver: DRIVER,
      nodeName: DRA_NODE,
      pool: { name: DRA_NODE, generation: 1, resourceSliceCount: 1 },
      devices,
    },
  });
}

export interface NewNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, string>>;
}

/** Makes a node that is Ready from the beginning; gives it back as it was created. */
export async function addNode(
  api: ApiClient,
  { name, labels, devices }: NewNode,
): Promise<KubeObject> {
  const resources = {
    cpu: String(NODE_CORES),
    memory: `${NODE_GIB}Gi`,
    pods: '250',
    ...devices,
  };
  const { object } = await api.ensure({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'karpenter.sh/capacity-type': 'on-demand', ...labels } },
    // The status of a new node is taken as it is; later ones are written apart.
    status: { capacity: resources, allocatable: resources },
  });
  return object;
}

/** What a pod on the node for claims is given, as its driver and the scheduler would write it. */
export async function addClaim(
  api: ApiClient,
  metadata: KubeObject['metadata'],
  slot: number,
  perClaim: number,
): Promise<KubeObject> {
  const { object } = await api.ensure({
    apiVersion: 'resource.k8s.io/v1',
    kind: 'ResourceClaim',
    metadata,
    spec: {
      devices: {
        requests: [{ name: 'gpu', exactly: { deviceClassName: DRIVER, count: perClaim } }],
      },
    },
  });
  const results = Array.from({ length: perClaim }, (_, index) => ({
    request: 'gpu',
    driver: DRIVER,
    pool: DRA_NODE,
    device: `gpu-${slot * perClaim + index}`,
  }));
  await setClaimStatus(api, object, { allocation: { devices: { results } } });
  return object;
}

/** Reserves a claim for its pod. */
export async function reserveClaim(
  api: ApiClient,
  claim: KubeObject,
  { metadata: { name, uid } }: KubeObject,
): Promise<void> {
  await setClaimStatus(api, claim, { reservedFor: [{ resource: 'pods', name, uid }] });
}

/** Nobody uses the claim any more: it is taken back and removed. */
export async function removeClaim(api: ApiClient, claim: KubeObject): Promise<void> {
  await setClaimStatus(api, claim, { reservedFor: null });
  await setClaimStatus(api, claim, { allocation: null });
  await api.remove(objectPath(claim), 0);
}

function setClaimStatus(api: ApiClient, claim: KubeObject, status: Body): Promise<boolean> {
  return api.patch(`${objectPath(claim)}/status`, { status });
}

/** Takes a node down; gives the time that its taint carries, milliseconds since the epoch. */
export async function takeDown(api: ApiClient, name: string): Promise<number> {
  const timeAdded = apiTime(Date.now());
  const taint = { key: UNREACHABLE, effect: 'NoExecute', timeAdded };
  await api.patch(`/api/v1/nodes/${name}`, { spec: { taints: [taint] } });
  return Date.parse(timeAdded);
}
