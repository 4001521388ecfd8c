import type { RawObject } from '../../../operator/kubernetes/source.ts';
import {
  GPU_LABELS,
  loadBalancer,
  node,
  pod,
  resourceClaim,
  resourceSlice,
  volumeClaim,
} from '../world/objects.ts';

/** The kinds that the operator reads from the API of a tenant cluster, by their plurals. */
export const KINDS = [
  'nodes',
  'pods',
  'persistentvolumeclaims',
  'services',
  'resourceclaims',
  'resourceslices',
] as const;

export type Kind = (typeof KINDS)[number];

const RESOURCES = { cpu: '64', memory: '512Gi', pods: '250', 'nvidia.com/gpu': '8' };
const REQUESTS = { cpu: '1', memory: '1Gi', 'nvidia.com/gpu': '1' };

/** The objects of one kind that an honest cluster would show, `count` of them. */
export function objectsOf(kind: Kind, cluster: string, bornAt: number, count = 2): RawObject[] {
  return Array.from({ length: count }, (_, index) => {
    const namespaced = kind !== 'nodes' && kind !== 'resourceslices';
    const name = namespaced ? `${kind}-${index}` : `${cluster}-${index}`;
    const object = objectOf(kind, `${cluster}-${index}`, index, bornAt);
    const metadata = {
      ...(object['metadata'] as RawObject),
      name,
      ...(namespaced ? { namespace: 'default' } : {}),
      uid: `uid-${kind}-${name}`,
      resourceVersion: '900',
    };
    return { ...object, metadata };
  });
}

function objectOf(kind: Kind, privateNode: string, index: number, bornAt: number): RawObject {
  switch (kind) {
    case 'nodes':
      return node(bornAt, { ...GPU_LABELS, 'kubernetes.io/hostname': privateNode }, RESOURCES);
    case 'pods':
      return pod({
        requests: REQUESTS,
        node: privateNode,
        labels: { app: 'work' },
        claim: `resourceclaims-${index}`,
        startedAt: bornAt,
      });
    case 'persistentvolumeclaims':
      return volumeClaim(bornAt, '10Gi', { app: 'work' });
    case 'services':
      return loadBalancer(bornAt, { app: 'work' });
    case 'resourceslices':
      return resourceSlice(bornAt, privateNode, 8);
    default:
      return resourceClaim(bornAt, privateNode, {
        name: `pods-${index}`,
        uid: `uid-pods-pods-${index}`,
      });
  }
}

/** Use of pods, as the metrics API of the cluster tells it. */
export function podMetrics(count: number): RawObject[] {
  const timestamp = new Date().toISOString();
  return Array.from({ length: count }, (_, index) => ({
    metadata: { name: `pods-${index}`, namespace: 'default', creationTimestamp: timestamp },
    timestamp,
    window: '15s',
    containers: [{ name: 'main', usage: { cpu: '100m', memory: '100Mi' } }],
  }));
}
