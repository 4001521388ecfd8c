import { randomUUID } from 'node:crypto';
import type { ApiClient, Body } from '../simulator/api-client.ts';
import type { SimulatedTenantCluster } from '../simulator/cloud.ts';
import { apiTime, type KubeObject, objectPath } from '../simulator/objects.ts';
import { type ClaimedDevices, GPU_MODES, GPUS_PER_POD } from './modes.ts';

const DRIVER = 'gpu.nvidia.com';
const UNREACHABLE = 'node.kubernetes.io/unreachable';

const NODE_CORES = 72;
const NODE_GIB = 576;

/** Makes the nodes of every GPU mode, and what the driver for claims publishes. */
export async function ensureGpuNodes(api: ApiClient): Promise<void> {
  for (const { node, labels, devices, annotations = {}, claims } of GPU_MODES) {
    await addNode(api, { name: node, labels, devices, annotations });
    if (claims !== undefined) await publish(api, node, claims);
  }
}

async function publish(api: ApiClient, node: string, claims: ClaimedDevices): Promise<void> {
  const { devices, sharedBy } = claims;
  const capacity = { memory: { value: '80Gi' }, shares: { value: String(sharedBy) } };
  await api.ensure({
    apiVersion: 'resource.k8s.io/v1',
    kind: 'ResourceSlice',
    metadata: { name: `${node}-${DRIVER}` },
    spec: {
      driver: DRIVER,
      nodeName: node,
      pool: { name: node, generation: 1, resourceSliceCount: 1 },
      devices: Array.from({ length: devices }, (_, index) => ({
        name: `gpu-${index}`,
        attributes: { type: { string: 'gpu' }, productName: { string: 'NVIDIA H100 80GB HBM3' } },
        ...(sharedBy > 1 && { allowMultipleAllocations: true, capacity }),
      })),
    },
  });
}

export interface NewNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Makes a node that is Ready from the beginning; gives it back as it was created. */
export async function addNode(
  api: ApiClient,
  { name, labels, devices, annotations = {} }: NewNode,
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
    metadata: {
      name,
      labels: { 'karpenter.sh/capacity-type': 'on-demand', ...labels },
      annotations,
    },
    // The status of a new node is taken as it is; later ones are written apart.
    status: { capacity: resources, allocatable: resources },
  });
  return object;
}

/** What a whole node comes to, by metric. */
export const NODE_RATES = [
  { metric: 'tenant_private_node_hours', rate: 1 },
  { metric: 'tenant_gpu_hours', rate: GPUS_PER_POD },
  { metric: 'tenant_cpu_core_hours', rate: NODE_CORES },
  { metric: 'tenant_memory_gb_hours', rate: NODE_GIB },
] as const;

/** Makes a node that is dedicated to one tenant cluster; gives its creation. */
export async function addPrivateNode(
  api: ApiClient,
  name: string,
  cluster: SimulatedTenantCluster,
): Promise<number> {
  const node = await addNode(api, {
    name,
    labels: {
      'vcluster.loft.sh/managed-by': cluster.namespace,
      'nvidia.com/gpu.product': 'NVIDIA-H100-80GB-HBM3',
      'nvidia.com/gpu.count': String(GPUS_PER_POD),
    },
    devices: { 'nvidia.com/gpu': String(GPUS_PER_POD) },
  });
  return Date.parse(node.metadata.creationTimestamp ?? '');
}

/** What a pod on a node for claims is given, as its driver and the scheduler would write it. */
export async function addClaim(
  api: ApiClient,
  metadata: KubeObject['metadata'],
  node: string,
  { perClaim, sharedBy }: ClaimedDevices,
  slot: number,
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
  const first = Math.floor(slot / sharedBy) * perClaim;
  const results = Array.from({ length: perClaim }, (_, index) => ({
    request: 'gpu',
    driver: DRIVER,
    pool: node,
    device: `gpu-${first + index}`,
    ...(sharedBy > 1 && {
      shareID: randomUUID(),
      consumedCapacity: { memory: '0', shares: '1' },
    }),
  }));
  await setClaimStatus(api, object, { allocation: { devices: { results } } });
  if (sharedBy > 1) await expectShares(api, object);
  return object;
}

/** An API server that does not know of consumable capacity drops it, and the claim has the devices whole. */
async function expectShares(api: ApiClient, claim: KubeObject): Promise<void> {
  const stored = JSON.stringify((await api.get(objectPath(claim)))?.status ?? {});
  if (stored.includes('"consumedCapacity"') && stored.includes('"shareID"')) return;
  throw new Error(`${claim.metadata.name}: the API server kept no shares: ${stored}`);
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
