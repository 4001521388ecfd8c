import type { ApiClient } from './api-client.ts';
import { claimReferences, ensureResourceClaim } from './claims.ts';
import type { Requests, SimulatedTenantCluster } from './cloud.ts';
import type { KubeObject, ObjectMeta } from './objects.ts';
import { acceptPod, containerTimes, runContainers } from './pod-lifecycle.ts';
import { controlPlaneLabels, syncedMeta } from './synced.ts';

const CONTROL_PLANE_REQUESTS: Requests = { cpu: '200m', memory: '256Mi' };

/** Makes the pods of a tenant cluster that stay, its control plane's among them, and lets them run. */
export async function ensureSteadyPods(
  api: ApiClient,
  cluster: SimulatedTenantCluster,
  now: () => number,
): Promise<void> {
  const controlPlane = {
    name: `${cluster.name}-0`,
    namespace: cluster.namespace,
    ...runByWorkload(cluster),
  };
  await ensureRunning(api, podObject(controlPlane, 'cpu-1', CONTROL_PLANE_REQUESTS, 'Always'), now);
  for (const pod of cluster.pods) {
    const meta = syncedMeta(cluster, pod.name, pod.namespace);
    const wanted = podObject(meta, pod.node, pod.requests, 'Always');
    const { object } = await api.ensure(withClaim(wanted, claimReferences(cluster, pod)));
    await ensureResourceClaim(api, cluster, pod, object);
    await letRun(api, object, now);
  }
}

const TEMPLATE_HASH = '5d4f86b9c7';

/** Labels and owner that the controllers of Kubernetes give a pod of the control plane; none of them runs here. */
function runByWorkload(cluster: SimulatedTenantCluster): Omit<ObjectMeta, 'name'> {
  const { name, kind } = cluster;
  const labels = controlPlaneLabels(cluster);
  const owner = { apiVersion: 'apps/v1', kind, name, uid: `uid-of-${name}`, controller: true };
  if (kind === 'StatefulSet') return { labels, ownerReferences: [owner] };
  const replicaSet = { ...owner, kind: 'ReplicaSet', name: `${name}-${TEMPLATE_HASH}` };
  return {
    labels: { ...labels, 'pod-template-hash': TEMPLATE_HASH },
    ownerReferences: [replicaSet],
  };
}

function withClaim(
  pod: KubeObject,
  { spec, resources }: ReturnType<typeof claimReferences>,
): KubeObject {
  const containers = (pod.spec?.['containers'] ?? []) as readonly { readonly resources: object }[];
  const claiming = containers.map((container) => ({
    ...container,
    resources: { ...container.resources, ...resources },
  }));
  return { ...pod, spec: { ...pod.spec, ...spec, containers: claiming } };
}

async function ensureRunning(api: ApiClient, wanted: KubeObject, now: () => number): Promise<void> {
  const { object } = await api.ensure(wanted);
  await letRun(api, object, now);
}

/** A pod that has no time of its own yet begins to run. */
export async function letRun(api: ApiClient, object: KubeObject, now: () => number): Promise<void> {
  if (containerTimes(object).mainStartedAt !== undefined) return;
  await acceptPod(api, object, now());
  await runContainers(api, object, now());
}

/** A pod bound to its node at once, since nobody schedules here. */
export function podObject(
  metadata: ObjectMeta,
  node: string,
  requests: Requests,
  restartPolicy: 'Always' | 'Never',
  withInitContainer = false,
): KubeObject {
  const extended = Object.entries(requests).filter(([name]) => name.includes('/'));
  const image = 'simulated/work';
  const resources = { requests, limits: Object.fromEntries(extended) };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: {
      nodeName: node,
      restartPolicy,
      automountServiceAccountToken: false,
      ...(withInitContainer ? { initContainers: [{ name: 'prepare', image }] } : {}),
      containers: [{ name: 'main', image, resources }],
    },
  };
}
