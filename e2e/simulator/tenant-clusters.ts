import type { ApiClient } from './api-client.ts';
import type { SimulatedClaim, SimulatedTenantCluster } from './cloud.ts';
import { type KubeObject, objectPath } from './objects.ts';
import { controlPlaneLabels, syncedMeta } from './synced.ts';

/** Makes what a tenant cluster has apart from its pods: namespace, workload, claims, Services, platform instance. */
export async function ensureTenantCluster(
  api: ApiClient,
  cluster: SimulatedTenantCluster,
): Promise<void> {
  await api.ensure(namespaceObject(cluster));
  await ensureWithStatus(api, workload(cluster), {
    observedGeneration: 1,
    replicas: 1,
    readyReplicas: 1,
    availableReplicas: 1,
    updatedReplicas: 1,
  });
  await ensureWithStatus(api, dataClaim(cluster), boundStatus('5Gi'));
  await api.ensure(controlPlaneService(cluster));
  for (const claim of cluster.claims) {
    await ensureWithStatus(api, tenantClaim(cluster, claim), boundStatus(claim.size));
  }
  for (const [index, name] of cluster.loadBalancers.entries()) {
    const ingress = [{ ip: `203.0.113.${10 + index}`, ipMode: 'VIP' }];
    const meta = syncedMeta(cluster, name, 'default');
    await ensureWithStatus(api, loadBalancerObject(meta), { loadBalancer: { ingress } });
  }
  if (cluster.instance !== undefined) await ensureInstance(api, cluster, cluster.instance);
}

async function ensureWithStatus(
  api: ApiClient,
  object: KubeObject,
  status: Record<string, unknown>,
): Promise<void> {
  const { created } = await api.ensure(object);
  if (created) await api.patch(`${objectPath(object)}/status`, { status });
}

function namespaceObject(cluster: SimulatedTenantCluster): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: cluster.namespace,
      labels: cluster.labels ?? {},
      annotations: { 'meterfeed.io/node-mode': 'shared', ...cluster.annotations },
    },
  };
}

function workload(cluster: SimulatedTenantCluster): KubeObject {
  const { name, namespace, kind } = cluster;
  const labels = controlPlaneLabels(cluster);
  const selected = { app: cluster.app, release: name };
  return {
    apiVersion: 'apps/v1',
    kind,
    metadata: { name, namespace, labels },
    spec: {
      replicas: 1,
      ...(kind === 'StatefulSet' ? { serviceName: `${name}-headless` } : {}),
      selector: { matchLabels: selected },
      template: {
        metadata: { labels: selected },
        spec: { containers: [{ name: 'syncer', image: 'simulated/syncer' }] },
      },
    },
  };
}

function dataClaim(cluster: SimulatedTenantCluster): KubeObject {
  const meta = {
    name: `data-${cluster.name}-0`,
    namespace: cluster.namespace,
    labels: { app: cluster.app, release: cluster.name },
  };
  return claimObject(meta, 'standard', '5Gi');
}

function tenantClaim(cluster: SimulatedTenantCluster, claim: SimulatedClaim): KubeObject {
  return claimObject(syncedMeta(cluster, claim.name, 'default'), claim.storageClass, claim.size);
}

/** A volume claim; bound once its status is {@link boundStatus}. */
export function claimObject(
  metadata: KubeObject['metadata'],
  storageClass: string,
  size: string,
): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata,
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: storageClass,
      volumeName: `pv-${metadata.namespace}-${metadata.name}`,
      resources: { requests: { storage: size } },
    },
  };
}

export function boundStatus(size: string): Record<string, unknown> {
  return { phase: 'Bound', accessModes: ['ReadWriteOnce'], capacity: { storage: size } };
}

function controlPlaneService(cluster: SimulatedTenantCluster): KubeObject {
  const labels = { ...controlPlaneLabels(cluster), 'vcluster.loft.sh/service': 'true' };
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: cluster.name, namespace: cluster.namespace, labels },
    spec: {
      type: 'ClusterIP',
      selector: { app: cluster.app, release: cluster.name },
      ports: [{ name: 'https', port: 443, targetPort: 8443 }],
    },
  };
}

/** A Service that has no address yet. */
export function loadBalancerObject(metadata: KubeObject['metadata']): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata,
    spec: { type: 'LoadBalancer', ports: [{ name: 'http', port: 80 }] },
  };
}

async function ensureInstance(
  api: ApiClient,
  cluster: SimulatedTenantCluster,
  instance: NonNullable<SimulatedTenantCluster['instance']>,
): Promise<void> {
  const namespace = `p-${instance.project}`;
  await api.ensure({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  await api.ensure({
    apiVersion: 'management.loft.sh/v1',
    kind: 'VirtualClusterInstance',
    metadata: {
      name: instance.name,
      namespace,
      labels: { 'loft.sh/project': instance.project },
    },
    spec: {
      displayName: instance.displayName,
      owner: { team: instance.project },
      clusterRef: {
        cluster: 'local',
        namespace: cluster.namespace,
        virtualCluster: cluster.name,
      },
    },
    status: { phase: 'Ready', online: true },
  });
}
