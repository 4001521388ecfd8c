import type { ApiClient } from './api-client.ts';
import { apiTime, type KubeObject, objectPath } from './objects.ts';

export interface SimulatedNode {
  readonly name: string;
  readonly instanceType: string;
  readonly zone: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Capacity and allocatable alike. */
  readonly resources: Readonly<Record<string, string>>;
}

const H100 = {
  'nvidia.com/gpu.present': 'true',
  'nvidia.com/gpu.product': 'NVIDIA-H100-80GB-HBM3',
  'nvidia.com/gpu.machine': 'p5.48xlarge',
  'nvidia.com/gpu.count': '8',
};

/** The node whose GPUs are given out by claims; it has no extended resource. */
export const DRA_NODE = 'dra-1';

/** Nodes as GPU feature discovery, the device plugins and a cloud would describe them. */
export const NODES: readonly SimulatedNode[] = [
  {
    name: 'gpu-1',
    instanceType: 'p5.48xlarge',
    zone: 'local-a',
    labels: {
      ...H100,
      'nvidia.com/gpu.replicas': '1',
      'nvidia.com/gpu.sharing-strategy': 'none',
      'nvidia.com/mig.capable': 'true',
      'karpenter.sh/capacity-type': 'on-demand',
    },
    resources: { cpu: '192', memory: '2Ti', pods: '250', 'nvidia.com/gpu': '8' },
  },
  {
    name: 'mig-1',
    instanceType: 'p5.48xlarge',
    zone: 'local-a',
    labels: {
      ...H100,
      'nvidia.com/gpu.replicas': '0',
      'nvidia.com/gpu.sharing-strategy': 'none',
      'nvidia.com/mig.strategy': 'mixed',
      'nvidia.com/mig.capable': 'true',
      'nvidia.com/mig-1g.10gb.count': '56',
      'nvidia.com/mig-1g.10gb.product': 'NVIDIA-H100-80GB-HBM3-MIG-1g.10gb',
      'karpenter.sh/capacity-type': 'reserved',
    },
    resources: {
      cpu: '192',
      memory: '2Ti',
      pods: '250',
      'nvidia.com/gpu': '0',
      'nvidia.com/mig-1g.10gb': '56',
    },
  },
  {
    name: 'slice-1',
    instanceType: 'g5.24xlarge',
    zone: 'local-b',
    labels: {
      'nvidia.com/gpu.present': 'true',
      'nvidia.com/gpu.product': 'NVIDIA-A10G-SHARED',
      'nvidia.com/gpu.machine': 'g5.24xlarge',
      'nvidia.com/gpu.count': '4',
      'nvidia.com/gpu.replicas': '4',
      'nvidia.com/gpu.sharing-strategy': 'time-slicing',
      'karpenter.sh/capacity-type': 'spot',
    },
    resources: { cpu: '96', memory: '384Gi', pods: '250', 'nvidia.com/gpu': '16' },
  },
  {
    name: 'amd-1',
    instanceType: 'mi300x-8',
    zone: 'local-b',
    labels: { 'amd.com/gpu.product-name': 'AMD_Instinct_MI300X_OAM' },
    resources: { cpu: '192', memory: '2Ti', pods: '250', 'amd.com/gpu': '8' },
  },
  {
    name: DRA_NODE,
    instanceType: 'p5.24xlarge',
    zone: 'local-b',
    labels: { ...H100, 'nvidia.com/gpu.count': '4', 'karpenter.sh/capacity-type': 'on-demand' },
    resources: { cpu: '96', memory: '1Ti', pods: '250' },
  },
  {
    name: 'dedicated-1',
    instanceType: 'p5.48xlarge',
    zone: 'local-b',
    labels: {
      ...H100,
      'nvidia.com/gpu.replicas': '1',
      'nvidia.com/gpu.sharing-strategy': 'none',
      'karpenter.sh/capacity-type': 'on-demand',
      'vcluster.loft.sh/managed-by': 'tenant-studio',
    },
    resources: { cpu: '192', memory: '2Ti', pods: '250', 'nvidia.com/gpu': '8' },
  },
  ...['cpu-1', 'cpu-2'].map((name) => ({
    name,
    instanceType: 'm6i.8xlarge',
    zone: 'local-a',
    labels: { 'karpenter.sh/capacity-type': name === 'cpu-1' ? 'on-demand' : 'spot' },
    resources: { cpu: '32', memory: '128Gi', pods: '250' },
  })),
];

/** Makes the nodes that are missing and lets every one be Ready. */
export async function ensureNodes(
  api: ApiClient,
  now: number,
  nodes: readonly SimulatedNode[] = NODES,
): Promise<void> {
  for (const node of nodes) {
    const { object, created } = await api.ensure(nodeObject(node));
    if (!created) continue;
    const path = objectPath(object);
    await api.patch(`${path}/status`, { status: nodeStatus(node, now) });
    // A new node is tainted not-ready at the door; a controller would take that away once it is Ready.
    await api.patch(path, { spec: { taints: null } });
  }
}

function nodeObject(node: SimulatedNode): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: node.name,
      labels: {
        'kubernetes.io/hostname': node.name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        'node.kubernetes.io/instance-type': node.instanceType,
        'topology.kubernetes.io/region': 'local',
        'topology.kubernetes.io/zone': node.zone,
        ...node.labels,
      },
    },
    spec: { providerID: `simulated:///${node.zone}/${node.name}` },
  };
}

function nodeStatus(node: SimulatedNode, now: number): Record<string, unknown> {
  const time = apiTime(now);
  return {
    capacity: node.resources,
    allocatable: node.resources,
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'KubeletReady',
        message: 'kubelet is posting ready status',
        lastHeartbeatTime: time,
        lastTransitionTime: time,
      },
    ],
  };
}
