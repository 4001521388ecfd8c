import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type TestCluster, useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { type ApiClient, createApiClient } from '../simulator/api-client.ts';
import { ensureNodes } from '../simulator/nodes.ts';
import {
  apply,
  CORES,
  CPU,
  discoveryProblems,
  grant,
  installManifests,
  patchDiscovery,
  perWindow as cores,
  POLICY,
  runPod,
  WINDOW_MS,
  windowSums,
} from './host-steps.ts';
import {
  type Bill,
  PATIENCE,
  prepareShippedProgram,
  type ShippedProgram,
} from './shipped-program.ts';

const NODES = 'tenant_private_node_hours';

/** In a window of ten seconds a node is 10/3600 node-hours, rounded once each. */
const nodes = (count: number): number => Number((count * 0.002777778).toFixed(9));

const SHOP = 'kamaji-shop-shop-cp';
const RED = 'hypershift-clusters-red';
const GREEN = 'cluster-api-fleet-green';

/** What two metrics came to in one window. */
interface Bills {
  readonly cpu: Bill;
  readonly nodes: Bill;
}

/** A node that is billed whole is two parts of CPU. */
const ALL: Bills = {
  cpu: { [SHOP]: cores(1), [RED]: cores(2 * 2), [GREEN]: cores(2) },
  nodes: { [RED]: nodes(2), [GREEN]: nodes(1) },
};

/**
 * The program of the image under its own options of Node, with the rights that the manifests give it, on a cluster that has
 * control planes of Kamaji, HyperShift and Cluster API, each with an API server of its own, some of which two kinds find.
 */
describe('tenants with nodes of their own, of several kinds on one cluster', () => {
  const host = useOwnTestCluster();
  const shop = useOwnTestCluster();
  const red = useOwnTestCluster();
  const green = useOwnTestCluster();
  const ending = new AbortController();
  const clients = new Map<TestCluster, ApiClient>();
  let program: ShippedProgram;

  const clientOf = (cluster: TestCluster): ApiClient => {
    const client = clients.get(cluster) ?? createApiClient(cluster.credentials, ending.signal);
    clients.set(cluster, client);
    return client;
  };

  /** A node joins a tenant cluster, and its Machine says so. */
  const addNode = async (cluster: TestCluster, name: string, of: MachineOf): Promise<void> => {
    await apply(host, {
      apiVersion: 'cluster.x-k8s.io/v1beta2',
      kind: 'Machine',
      metadata: {
        name,
        namespace: of.namespace,
        labels: { 'cluster.x-k8s.io/cluster-name': of.cluster },
      },
      spec: { clusterName: of.cluster, providerID: `simulated:///zone-a/${name}` },
    });
    const resources = { cpu: `${2 * CORES}`, memory: '32Gi', pods: '110' };
    const node = { name, instanceType: 'm6i.2xlarge', zone: 'zone-a', labels: {}, resources };
    await ensureNodes(clientOf(cluster), Date.now(), [node]);
  };

  const run = (
    cluster: TestCluster,
    name: string,
    node: string,
    parts: number,
    namespace = 'default',
  ): Promise<void> => runPod(clientOf(cluster), { namespace, name }, node, parts);

  const nameKinds = (...sources: readonly string[]): Promise<string> =>
    patchDiscovery(host, { sources });

  const problems = (): Promise<unknown> => discoveryProblems(program);

  const until = async (expected: Bills): Promise<void> => {
    await vi.waitFor(async () => {
      const [cpu, complete] = await Promise.all([program.nextBill(CPU), program.nextBill(NODES)]);
      expect({ cpu, nodes: complete }).toEqual(expected);
    }, PATIENCE);
  };

  beforeAll(async () => {
    program = await prepareShippedProgram({
      cluster: host,
      name: 'own-node-kinds',
      windowMs: WINDOW_MS,
      env: {
        TENANT_ADMIN_FALLBACK: 'true',
      },
    });
    const kinds = ['kamaji', 'hypershift', 'cluster-api'];
    await installManifests(host, ...kinds, 'cluster-api-machines');
    await grant(host, ...kinds, 'machine-records');
    // Where the tenant clusters have their API servers here, instead of Services of this cluster.
    const spec = { tenantAPI: { allowedHosts: ['127.0.0.1'] }, privateNodeTrust: 'provider' };
    await apply(host, ...NAMESPACES, { ...POLICY, spec }, BY_USAGE);
    await apply(host, ...kamajiObjects(shop.kubeconfig));
    await apply(host, ...hypershiftObjects(red.kubeconfig));
    await apply(host, ...clusterApiObjects(green.kubeconfig));
    for (const { path, status } of STATUSES) {
      await clientOf(host).patch(`${path}/status`, { status });
    }
    await addNode(shop, 'shop-1', MACHINES_OF.shop);
    await addNode(shop, 'shop-2', MACHINES_OF.shop);
    await addNode(red, 'red-1', MACHINES_OF.red);
    await addNode(red, 'red-2', MACHINES_OF.red);
    await addNode(green, 'green-1', MACHINES_OF.green);
    await run(shop, 'web', 'shop-1', 1);
    // Control planes are pods of this cluster.
    await run(host, 'kube-apiserver', 'host-1', 16, 'clusters-red');
    await run(host, 'shop-cp', 'host-1', 32, 'shop');
    await program.start();
  }, 900_000);
  afterAll(async () => {
    await program?.stop();
    ending.abort();
    for (const client of clients.values()) await client.close();
  });

  test('a tenant of a kind that the policy does not name is billed', async () => {
    await until({ cpu: {}, nodes: {} });
  });

  test('by Cluster API alone all that have a Cluster are found, and each is billed for its own nodes', async () => {
    await nameKinds('vcluster', 'cluster-api');
    await until({
      cpu: { 'cluster-api-shop-shop': cores(2 * 2), [GREEN]: cores(2) },
      nodes: { 'cluster-api-shop-shop': nodes(2), [GREEN]: nodes(1) },
    });
    expect(JSON.stringify(await program.get('/api/v1/status'))).toContain('red-x7k2p');
  });

  test('with the more specific kinds each tenant cluster is one of them, and none is billed twice', async () => {
    await nameKinds('vcluster', 'kamaji', 'hypershift', 'cluster-api');
    await until(ALL);
    await expect.poll(problems, PATIENCE).toEqual([OVERLAP]);
  });

  test('a pod that moves to another node, or a node in the place of another, is billed twice', async () => {
    await clientOf(shop).remove('/api/v1/namespaces/default/pods/web', 0);
    await run(shop, 'web', 'shop-2', 1);
    await addNode(green, 'green-2', MACHINES_OF.green);
    await host.kubectl(['delete', 'machine.cluster.x-k8s.io', 'green-1', '--namespace=fleet']);
    await clientOf(green).remove('/api/v1/nodes/green-1', 0);
    await until(ALL);
  });

  test('a node of HyperShift that its tenant hides is billed while its Machine lives', async () => {
    await clientOf(red).remove('/api/v1/nodes/red-2', 0);
    // As long as whoever hides it waits for a window without it.
    await until(ALL);
  });

  test('after the process is killed everything goes on, hidden node included', async () => {
    await program.kill();
    await program.start();
    await until(ALL);
  });

  test('a deleted tenant cluster goes on being billed, or the Cluster that it leaves for a moment is', async () => {
    await host.kubectl([
      'delete',
      'machine.cluster.x-k8s.io',
      'red-1',
      'red-2',
      '--namespace=clusters-red',
    ]);
    await clientOf(red).remove('/api/v1/nodes/red-1', 0);
    await host.kubectl(['delete', 'hostedcluster', 'red', '--namespace=clusters']);
    await host.kubectl(['delete', 'tenantcontrolplane', 'shop-cp', '--namespace=shop']);
    await until({ cpu: { [GREEN]: cores(2) }, nodes: { [GREEN]: nodes(1) } });
  });

  test('no window was billed for more than what ran', async () => {
    const [cpu, complete] = [await windowSums(program, CPU), await windowSums(program, NODES)];
    expect(cpu.length).toBeGreaterThan(3);
    // By whole nodes, as long as Kamaji's is not known; and while one node takes the place of another both are there.
    for (const sum of cpu) expect(sum).toBeLessThanOrEqual(cores(2 * (2 + 2 + 2)) + 1e-9);
    for (const sum of complete) expect(sum).toBeLessThanOrEqual(nodes(2 + 2 + 2) + 1e-9);
  });
});

/** Where Machines are, and what they say whose they are. */
interface MachineOf {
  readonly namespace: string;
  readonly cluster: string;
}

const MACHINES_OF = {
  shop: { namespace: 'shop', cluster: 'shop' },
  red: { namespace: 'clusters-red', cluster: 'red-x7k2p' },
  green: { namespace: 'fleet', cluster: 'green' },
} as const satisfies Readonly<Record<string, MachineOf>>;

const OVERLAP =
  'Objects of cluster-api belong to tenants of a more specific kind, which alone are billed for them: clusters-red/red-x7k2p, shop/shop';

const NAMESPACES = ['shop', 'clusters', 'clusters-red', 'fleet'].map((name) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name },
}));

/** What runs on the nodes of this one is billed, instead of the nodes. */
const BY_USAGE = {
  apiVersion: 'meterfeed.io/v1alpha1',
  kind: 'TenantOverride',
  metadata: { name: 'shop' },
  spec: {
    match: { namespace: 'shop', name: 'shop-cp' },
    metering: { privateNodeBilling: 'usage' },
  },
};

/** Lets the operator read one Secret, as config/components/tenant-admin-fallback/role.yaml does. */
function readable(namespace: string, secret: string): readonly object[] {
  const metadata = { name: `meterfeed-${secret}`, namespace };
  const rbac = 'rbac.authorization.k8s.io';
  return [
    {
      apiVersion: `${rbac}/v1`,
      kind: 'Role',
      metadata,
      rules: [{ apiGroups: [''], resources: ['secrets'], resourceNames: [secret], verbs: ['get'] }],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'Role', name: metadata.name },
      subjects: [{ kind: 'ServiceAccount', name: 'meterfeed', namespace: OPERATOR_NAMESPACE }],
    },
  ];
}

function secretOf(
  namespace: string,
  name: string,
  more: { readonly type?: string; readonly labels?: object; readonly stringData: object },
): readonly object[] {
  const { labels = {}, ...rest } = more;
  const secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, labels },
    ...rest,
  };
  return [secret, ...readable(namespace, name)];
}

function clusterObject(
  namespace: string,
  name: string,
  controlPlane: { readonly apiGroup: string; readonly kind: string; readonly name: string },
): object {
  return {
    apiVersion: 'cluster.x-k8s.io/v1beta2',
    kind: 'Cluster',
    metadata: { name, namespace },
    spec: { controlPlaneRef: controlPlane },
  };
}

/** As Cluster API writes it for a Cluster. */
function clusterSecret(namespace: string, cluster: string, kubeconfig: string): readonly object[] {
  return secretOf(namespace, `${cluster}-kubeconfig`, {
    type: 'cluster.x-k8s.io/secret',
    labels: { 'cluster.x-k8s.io/cluster-name': cluster },
    stringData: { value: kubeconfig },
  });
}

/** A control plane of Kamaji that Cluster API's provider for it has made of a KamajiControlPlane `shop-cp`. */
function kamajiObjects(kubeconfig: string): readonly object[] {
  const labels = { 'cluster.x-k8s.io/cluster-name': 'shop' };
  return [
    {
      apiVersion: 'kamaji.clastix.io/v1alpha1',
      kind: 'TenantControlPlane',
      metadata: {
        name: 'shop-cp',
        namespace: 'shop',
        labels,
      },
      spec: {
        controlPlane: { deployment: { replicas: 2 }, service: { serviceType: 'LoadBalancer' } },
        kubernetes: { version: 'v1.35.0', kubelet: { cgroupfs: 'systemd' } },
        networkProfile: { port: 6443 },
      },
    },
    clusterObject('shop', 'shop', {
      apiGroup: 'controlplane.cluster.x-k8s.io',
      kind: 'KamajiControlPlane',
      name: 'shop-cp',
    }),
    ...secretOf('shop', 'shop-cp-admin-kubeconfig', {
      stringData: { 'admin.conf': kubeconfig, 'admin.svc': kubeconfig },
    }),
    ...clusterSecret('shop', 'shop', kubeconfig),
  ];
}

/** A hosted cluster, with the Cluster that HyperShift makes of it in the namespace of its control plane. */
function hypershiftObjects(kubeconfig: string): readonly object[] {
  return [
    {
      apiVersion: 'hypershift.openshift.io/v1beta1',
      kind: 'HostedCluster',
      metadata: { name: 'red', namespace: 'clusters' },
      spec: { infraID: 'red-x7k2p', platform: { type: 'Agent' } },
    },
    clusterObject('clusters-red', 'red-x7k2p', {
      apiGroup: 'hypershift.openshift.io',
      kind: 'HostedControlPlane',
      name: 'red',
    }),
    ...secretOf('clusters', 'red-admin-kubeconfig', { stringData: { kubeconfig } }),
  ];
}

function clusterApiObjects(kubeconfig: string): readonly object[] {
  return [
    clusterObject('fleet', 'green', {
      apiGroup: 'controlplane.cluster.x-k8s.io',
      kind: 'KubeadmControlPlane',
      name: 'green-cp',
    }),
    ...clusterSecret('fleet', 'green', kubeconfig),
  ];
}

const STATUSES = [
  {
    path: '/apis/kamaji.clastix.io/v1alpha1/namespaces/shop/tenantcontrolplanes/shop-cp',
    status: { kubeconfig: { admin: { secretName: 'shop-cp-admin-kubeconfig' } } },
  },
  {
    path: '/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/hostedclusters/red',
    status: { kubeconfig: { name: 'red-admin-kubeconfig' } },
  },
  {
    path: '/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/clusters/green',
    status: { phase: 'Provisioned' },
  },
] as const;
