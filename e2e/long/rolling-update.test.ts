import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  type PostgresServer,
  startPostgres,
  TEST_USER,
} from '../../operator/ledger/testing/postgres-server.ts';
import { bundle } from '../../scripts/bundle.ts';
import {
  DEPLOYMENT_CONTROLLERS,
  startControllerManager,
} from '../control-plane/controller-manager.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import type { ManagedProcess } from '../processes/managed-process.ts';
import { coveredBy, type ReportedGap } from '../rig/gaps.ts';
import { type ApiClient, createApiClient } from '../simulator/api-client.ts';
import { apply, CPU, perWindow, ROOT, runPod, WINDOW_MS } from './host-steps.ts';
import { Kubelet } from './kubelet.ts';
import { parseEvents, type ReceivedEvent, repeatedIds } from './received.ts';

const DEPLOYMENT = 'deployment/meterfeed';
const NODES = ['node-1', 'node-2'];
const TENANT_CLUSTER = 'tenant-tenant-acme-acme';
/** What the manifest promises: two replicas, of which a rolling update takes none away before a new one is Ready. */
const PROMISED_READY = 2;
/** For a pod to start and to take over on a busy machine. */
const PATIENCE = { timeout: 120_000, interval: 500 };
const ROLLOUT_TIMEOUT = '--timeout=480s';
const TEST_MS = 900_000;

/**
 * The Deployment of the component `replicated` under the Deployment controller of Kubernetes. A stand-in for scheduler and
 * kubelet runs the shipped program for each pod, with the rights that the manifests give it.
 */
describe('a rolling update of the Deployment', () => {
  const cluster = useOwnTestCluster({
    apiServerFlags: {
      // Nodes come without a taint, which nothing but a node controller would take off again.
      'disable-admission-plugins': 'ServiceAccount,TaintNodesByCondition',
    },
  });
  const ending = new AbortController();
  let directory: string;
  let postgres: PostgresServer;
  let manager: ManagedProcess;
  let api: ApiClient;
  let kubelet: Kubelet;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'rolling-update-'));
    await bundle(join(directory, 'app'));
    postgres = await startPostgres();
    const { port, name } = await postgres.createDatabase();
    const ledgerUrl = `postgresql://${TEST_USER}@127.0.0.1:${port}/${name}?sslmode=disable`;
    api = createApiClient(cluster.credentials, ending.signal);
    manager = await startControllerManager({
      directory: cluster.directory,
      kubeconfigPath: cluster.kubeconfigPath,
      controllers: DEPLOYMENT_CONTROLLERS,
    });
    await apply(cluster, ...NODES.map(node), ...TENANT);
    await runPod(api, SYNCED_POD, 'node-1', 1);
    kubelet = new Kubelet({ cluster, api, directory, nodes: NODES });
    kubelet.start();
    await writeFile(join(directory, 'kustomization.yaml'), overlay(directory, ledgerUrl));
    await cluster.kubectl(['apply', '--kustomize', directory]);
    await rolledOut();
  }, TEST_MS);
  afterAll(async () => {
    await kubelet?.stop();
    ending.abort();
    await api?.close();
    await manager?.stop();
    await postgres?.stop();
    if (process.env['KEEP_RUN'] === undefined) {
      await rm(directory, { recursive: true, force: true });
    }
  });

  const own = (...args: readonly string[]): Promise<string> =>
    cluster.kubectl([...args, `--namespace=${OPERATOR_NAMESPACE}`]);

  /** Waits until the Deployment says that its rollout is complete; rejects when it says that it is stuck. */
  const rolledOut = (): Promise<string> => own('rollout', 'status', DEPLOYMENT, ROLLOUT_TIMEOUT);

  const read = async (path: string): Promise<Record<string, unknown>> =>
    cluster.call('GET', path.replace('{namespace}', `namespaces/${OPERATOR_NAMESPACE}`));

  /** Names of the pods that the API server has. */
  const podNames = async (selector: string): Promise<readonly string[]> => {
    const names = await own('get', 'pods', `--selector=${selector}`, '--output=name');
    return names
      .split('\n')
      .filter((name) => name !== '')
      .map((name) => name.slice('pod/'.length));
  };
  const ownPods = () => podNames('app.kubernetes.io/name=meterfeed');
  const leaders = () => podNames('meterfeed.io/role=leader');

  /** An answer of the pod that the Service leads to. */
  const fromLeader = async (path: string): Promise<string> => {
    const [leader = ''] = await leaders();
    const response = await fetch(
      `${kubelet.pods.get(leader)?.address ?? 'http://none.invalid'}${path}`,
    );
    if (response.status !== 200) throw new Error(`GET ${path}: HTTP ${response.status}`);
    return response.text();
  };

  /** Waits until a window is closed that begins from now on; the window's end in milliseconds. */
  const windowCloses = async (): Promise<number> => {
    const end = Math.ceil(Date.now() / WINDOW_MS) * WINDOW_MS + WINDOW_MS;
    await vi.waitFor(async () => {
      const status = JSON.parse(await fromLeader('/api/v1/status')) as { last_window_end: string };
      expect(Date.parse(status.last_window_end)).toBeGreaterThanOrEqual(end);
    }, PATIENCE);
    return end;
  };

  /** The ledger has each window of the tenant cluster once and in full, from a moment to a moment, and there is no gap. */
  const expectMetered = async (from: number, to: number): Promise<void> => {
    const range = `from=${new Date(from).toISOString()}&to=${new Date(to + 60_000).toISOString()}`;
    const events = parseEvents(await fromLeader(`/api/v1/events?format=ndjson&${range}`));
    expect(repeatedIds(events)).toEqual([]);
    expect(windowsOf(events, from, to)).toEqual(fullWindows(from, to));
    const gaps = JSON.parse(await fromLeader(`/api/v1/gaps?${range}`)) as {
      readonly open: readonly ReportedGap[];
      readonly ended: readonly ReportedGap[];
    };
    const pods = { scope: 'pods', tenantCluster: TENANT_CLUSTER, isSampled: false };
    const reported = [...gaps.open, ...gaps.ended];
    expect(coveredBy(reported, pods, { from, to }), JSON.stringify(reported)).toEqual([]);
  };

  /** Since the answer with that number there were never fewer Ready pods than promised, and never two leaders. */
  const expectPromiseKept = (since: number): void => {
    const observed = kubelet.observed.slice(since);
    expect(observed.filter(({ ready }) => ready.length < PROMISED_READY)).toEqual([]);
    expect(observed.filter(({ leaders: labelled }) => labelled.length > 1)).toEqual([]);
  };

  test(
    'waits for a person, or leaves out a window, or is without a second Ready pod',
    async () => {
      const from = await windowCloses();
      const since = kubelet.observed.length - 1;
      const before = await ownPods();

      await own('rollout', 'restart', DEPLOYMENT);
      await rolledOut();
      await vi.waitFor(async () => expect(await ownPods()).toHaveLength(2), PATIENCE);
      await vi.waitFor(async () => expect(await leaders()).toHaveLength(1), PATIENCE);
      const to = await windowCloses();

      const after = await ownPods();
      expect(after.filter((name) => before.includes(name))).toEqual([]);
      expect(after).toEqual(expect.arrayContaining([...(await leaders())]));
      for (const name of before) expect(kubelet.pods.get(name)?.ends).toEqual(['exit code 0']);
      const deployment = await read('/apis/apps/v1/{namespace}/deployments/meterfeed');
      expect(deployment['status']).toMatchObject({
        replicas: 2,
        updatedReplicas: 2,
        readyReplicas: 2,
        availableReplicas: 2,
        conditions: expect.arrayContaining([
          expect.objectContaining({
            type: 'Progressing',
            status: 'True',
            reason: 'NewReplicaSetAvailable',
          }),
        ]) as unknown,
      });
      expectPromiseKept(since);
      await expectMetered(from, to);
    },
    TEST_MS,
  );

  test('leaves the Service without its leader, or a drain of nodes without its limit', async () => {
    const slices = '/apis/discovery.k8s.io/v1/{namespace}/endpointslices';
    await vi.waitFor(async () => {
      const { items } = await read(
        `${slices}?labelSelector=kubernetes.io%2Fservice-name%3Dmeterfeed`,
      );
      const found = items as readonly { endpoints?: readonly { targetRef: { name: string } }[] }[];
      const names = found.flatMap(({ endpoints = [] }) =>
        endpoints.map((one) => one.targetRef.name),
      );
      expect(names).toEqual(await leaders());
      const budget = await read('/apis/policy/v1/{namespace}/poddisruptionbudgets/meterfeed');
      expect(budget['status']).toMatchObject({
        expectedPods: 2,
        currentHealthy: 2,
        desiredHealthy: 1,
        disruptionsAllowed: 1,
      });
    }, PATIENCE);
  });

  test(
    'takes the old pods away for a new one that never becomes Ready',
    async () => {
      const from = await windowCloses();
      const since = kubelet.observed.length - 1;
      const before = await ownPods();
      const leader = await leaders();
      const patience = JSON.stringify({ spec: { progressDeadlineSeconds: 60 } });
      await own('patch', DEPLOYMENT, '--type=merge', `--patch=${patience}`);

      await own('set', 'env', DEPLOYMENT, 'COLLECTION_INTERVAL=soon');
      await expect(rolledOut()).rejects.toThrow('exceeded its progress deadline');
      await windowCloses();

      const [broken = '', ...others] = (await ownPods()).filter((name) => !before.includes(name));
      expect(others).toEqual([]);
      expect(kubelet.pods.get(broken)?.log()).toContain(
        'COLLECTION_INTERVAL: not a duration: "soon"',
      );
      expect(kubelet.pods.get(broken)?.ends).toContain('exit code 2');
      expect(kubelet.observed.at(-1)).toEqual({ ready: before.toSorted(), leaders: leader });

      await own('rollout', 'undo', DEPLOYMENT);
      await rolledOut();
      await vi.waitFor(async () => expect(await ownPods()).toEqual(before), PATIENCE);
      const to = await windowCloses();
      expectPromiseKept(since);
      for (const name of before) expect(kubelet.pods.get(name)?.ends).toEqual([]);
      await expectMetered(from, to);
    },
    TEST_MS,
  );
});

/** Quantities of the tenant cluster's CPU by the start of their window. */
type Windows = Readonly<Record<string, readonly number[]>>;

function windowsOf(events: readonly ReceivedEvent[], from: number, to: number): Windows {
  const found: Record<string, number[]> = {};
  for (const { metric, window_start: start, quantity } of events) {
    const at = Date.parse(start);
    if (metric !== CPU || at < from || at >= to) continue;
    (found[new Date(at).toISOString()] ??= []).push(Number(quantity));
  }
  return found;
}

function fullWindows(from: number, to: number): Windows {
  const starts = Array.from(
    { length: (to - from) / WINDOW_MS },
    (_, index) => from + index * WINDOW_MS,
  );
  return Object.fromEntries(starts.map((at) => [new Date(at).toISOString(), [perWindow(1)]]));
}

/** The component over the default installation, as docs/how-to/postgresql.md#two-pods says, on one database without a standby. */
function overlay(directory: string, ledgerUrl: string): string {
  const from = (path: string): string => relative(directory, join(ROOT, 'config', path));
  const settings = [
    'CLUSTER_NAME=local',
    'REGION=local',
    `COLLECTION_INTERVAL=${WINDOW_MS / 1_000}s`,
    'CPU_MEMORY_BASIS=requests',
    'LEDGER_DURABILITY=storage',
  ];
  return JSON.stringify({
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [from('default')],
    components: [from('components/replicated')],
    configMapGenerator: [
      {
        name: 'meterfeed-settings',
        namespace: OPERATOR_NAMESPACE,
        behavior: 'merge',
        literals: settings,
      },
    ],
    secretGenerator: [
      {
        name: 'meterfeed',
        namespace: OPERATOR_NAMESPACE,
        literals: [`LEDGER_URL=${ledgerUrl}`],
        options: { disableNameSuffixHash: true },
      },
    ],
  });
}

function node(name: string): object {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name } };
}

const SYNCED_POD = {
  name: 'work',
  namespace: 'tenant-acme',
  labels: { 'vcluster.loft.sh/managed-by': 'acme' },
};

/** One tenant cluster. */
const TENANT: readonly object[] = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'tenant-acme' } },
  {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: {
      name: 'acme',
      namespace: 'tenant-acme',
      labels: { app: 'vcluster', release: 'acme' },
    },
    spec: {
      serviceName: 'acme',
      selector: { matchLabels: { app: 'vcluster', release: 'acme' } },
      template: {
        metadata: { labels: { app: 'vcluster', release: 'acme' } },
        spec: { containers: [{ name: 'control-plane', image: 'example.com/vcluster' }] },
      },
    },
  },
];
