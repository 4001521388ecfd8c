import type { RawObject } from '../../../operator/kubernetes/source.ts';
import { kubeconfigText } from '../../../operator/tenant-api/testing/kubeconfigs.ts';

/** The objects of the simulated clusters, each as plain as it can be and be billed. */

type Texts = Readonly<Record<string, string>>;

export interface PodOptions {
  readonly requests: Texts;
  readonly node: string;
  readonly labels?: Texts;
  /** The resource claim of its namespace that it uses. */
  readonly claim?: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly finishedAt?: number;
}

/** RFC 3339 in UTC to the second, as the API writes it. */
export function apiTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

export function pod(options: PodOptions): RawObject {
  const { requests, node, labels = {}, claim, startedAt, finishedAt } = options;
  const started = apiTime(startedAt);
  const state =
    finishedAt === undefined
      ? { running: { startedAt: started } }
      : { terminated: { exitCode: 0, startedAt: started, finishedAt: apiTime(finishedAt) } };
  return {
    metadata: { labels, creationTimestamp: started },
    spec: {
      nodeName: node,
      containers: [{ name: 'main', resources: { requests } }],
      ...(claim === undefined
        ? {}
        : { resourceClaims: [{ name: claim, resourceClaimName: claim }] }),
    },
    status: {
      phase: finishedAt === undefined ? 'Running' : 'Succeeded',
      startTime: started,
      conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: started }],
      containerStatuses: [{ name: 'main', state }],
    },
  };
}

export const GPU_LABELS = {
  'node.kubernetes.io/instance-type': 'p5.48xlarge',
  'nvidia.com/gpu.product': 'NVIDIA-H100-80GB-HBM3',
  'nvidia.com/gpu.count': '8',
  'nvidia.com/gpu.replicas': '1',
  'nvidia.com/gpu.sharing-strategy': 'none',
};

export function node(bornAt: number, labels: Texts, resources: Texts): RawObject {
  const born = apiTime(bornAt);
  return {
    metadata: { labels, creationTimestamp: born },
    spec: {},
    status: {
      capacity: resources,
      allocatable: resources,
      conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: born }],
    },
  };
}

export function volumeClaim(bornAt: number, size: string, labels: Texts = {}): RawObject {
  return {
    metadata: { labels, creationTimestamp: apiTime(bornAt) },
    spec: { storageClassName: 'fast', resources: { requests: { storage: size } } },
    status: { phase: 'Bound', capacity: { storage: size } },
  };
}

export function loadBalancer(bornAt: number, labels: Texts = {}): RawObject {
  return {
    metadata: { labels, creationTimestamp: apiTime(bornAt) },
    spec: { type: 'LoadBalancer', ports: [{ port: 443 }] },
    status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } },
  };
}

/** The pool of a node: whole GPUs, one slice. */
export function resourceSlice(bornAt: number, node: string, devices: number): RawObject {
  return {
    metadata: { creationTimestamp: apiTime(bornAt) },
    spec: {
      driver: 'gpu.nvidia.com',
      pool: { name: node, generation: 1, resourceSliceCount: 1 },
      nodeName: node,
      devices: Array.from({ length: devices }, (_, index) => ({
        name: `gpu-${index}`,
        attributes: {
          type: { string: 'gpu' },
          uuid: { string: `GPU-${node}-${index}` },
          productName: { string: 'NVIDIA H100 80GB HBM3' },
        },
      })),
    },
  };
}

/** Allocated with `gpu-0` of a node for a pod. */
export function resourceClaim(
  bornAt: number,
  node: string,
  pod: { readonly name: string; readonly uid: string },
  labels: Texts = {},
): RawObject {
  const selector = { key: 'metadata.name', operator: 'In', values: [node] };
  return {
    metadata: { labels, creationTimestamp: apiTime(bornAt) },
    spec: { devices: { requests: [{ name: 'gpu', exactly: { deviceClassName: 'gpu' } }] } },
    status: {
      allocation: {
        devices: {
          results: [{ request: 'gpu', driver: 'gpu.nvidia.com', pool: node, device: 'gpu-0' }],
        },
        nodeSelector: { nodeSelectorTerms: [{ matchFields: [selector] }] },
      },
      reservedFor: [{ resource: 'pods', ...pod }],
    },
  };
}

/** A tenant cluster's control plane with one ready replica. */
export function controlPlane(
  bornAt: number,
  release: string,
  annotations: Texts = {},
  more: Texts = {},
): RawObject {
  const labels = { ...more, app: 'vcluster', release };
  return {
    kind: 'StatefulSet',
    metadata: { labels, annotations, creationTimestamp: apiTime(bornAt) },
    spec: { replicas: 1, serviceName: release, selector: { matchLabels: labels } },
    status: { observedGeneration: 1, replicas: 1, readyReplicas: 1, availableReplicas: 1 },
  };
}

/** The Secret with a tenant cluster's kubeconfig. */
export function kubeconfigSecret(text: string, key = 'config'): RawObject {
  return { data: { [key]: Buffer.from(text).toString('base64') } };
}

/** A kubeconfig as vCluster exports it. */
export function kubeconfig(server: string, authority: string, token: string): string {
  const trusted = { 'certificate-authority-data': Buffer.from(authority).toString('base64') };
  return kubeconfigText({ cluster: { server, ...trusted }, user: { token } });
}
