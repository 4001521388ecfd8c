import type { TestCluster } from '../../../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../../../kubernetes/connection.ts';
import { connectWith } from '../../../kubernetes/testing/connect.ts';

/** What the API server answers to a new pod. */
export interface PodAdmission {
  readonly status: number;
  readonly message: string;
}

/** Pods as somebody in particular tries to make them. */
export interface PodMaker {
  /** Nothing is kept of it. */
  tryPod(namespace: string, labels: Readonly<Record<string, string>>): Promise<PodAdmission>;
  makePod(
    namespace: string,
    name: string,
    labels: Readonly<Record<string, string>>,
  ): Promise<PodAdmission>;
}

/** The tenant clusters of a test, on a real API server. */
export interface ApiServerEstate extends AsyncDisposable {
  /** A control plane as the chart makes it, with a service account of its own or a given one. */
  addTenantCluster(namespace: string, name: string, serviceAccount?: string): Promise<void>;
  /** The syncer of a tenant cluster, as the control plane's service account. */
  syncer(namespace: string, serviceAccount: string): Promise<PodMaker>;
  /** Somebody by his user name, with all rights. */
  somebody(user: string): Promise<PodMaker>;
}

export const STATEFUL_SET_CONTROLLER = 'system:serviceaccount:kube-system:statefulset-controller';

/** The labels that a syncer puts on a pod. */
export function synced(name: string, labels: Readonly<Record<string, string>> = {}) {
  return {
    ...labels,
    'vcluster.loft.sh/managed-by': name,
    'vcluster.loft.sh/namespace': 'default',
  };
}

export function createEstate(cluster: TestCluster): ApiServerEstate {
  const connections = new Map<string, Connection>();

  async function somebody(user: string): Promise<PodMaker> {
    let connection = connections.get(user);
    if (connection === undefined) {
      connection = connectWith(await cluster.addUser(user, ['system:masters']));
      connections.set(user, connection);
    }
    return podMaker(connection);
  }

  return {
    addTenantCluster: async (namespace, name, serviceAccount = `vc-${name}`) => {
      const labels = { app: 'vcluster', release: name };
      await cluster.call('POST', `/apis/apps/v1/namespaces/${namespace}/statefulsets`, {
        metadata: { name, labels, annotations: { 'example.com/kept': 'yes' } },
        spec: {
          serviceName: name,
          selector: { matchLabels: labels },
          template: {
            metadata: { labels },
            spec: { ...POD_SPEC, serviceAccountName: serviceAccount },
          },
        },
      });
    },
    syncer: (namespace, serviceAccount) =>
      somebody(`system:serviceaccount:${namespace}:${serviceAccount}`),
    somebody,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...connections.values()].map((connection) => connection.close()));
    },
  };
}

const POD_SPEC = { containers: [{ name: 'main', image: 'example.com/image' }] };

function podMaker(connection: Connection): PodMaker {
  const post = async (namespace: string, metadata: object, query: Record<string, string>) => {
    const outcome = await connection.request(`/api/v1/namespaces/${namespace}/pods`, {
      method: 'POST',
      query,
      body: { apiVersion: 'v1', kind: 'Pod', metadata, spec: POD_SPEC },
    });
    if (outcome.kind === 'network') throw new Error(outcome.message);
    if (outcome.kind === 'ok') return { status: outcome.status, message: '' };
    return { status: outcome.code, message: outcome.message };
  };
  return {
    tryPod: (namespace, labels) =>
      post(namespace, { generateName: 'try-', labels }, { dryRun: 'All' }),
    makePod: (namespace, name, labels) => post(namespace, { name, labels }, {}),
  };
}
