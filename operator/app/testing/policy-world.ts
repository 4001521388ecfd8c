import { createHmac, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { stablePort } from '../../../e2e/control-plane/ports.ts';
import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { installCustomResources } from '../../controllers/testing/install.ts';
import { settingsFrom } from '../../settings/testing/settings.ts';
import { loadKubeConfig } from '../../kubernetes/kube-config.ts';
import {
  type FakePrometheus,
  startFakePrometheus,
} from '../../prometheus/testing/fake-prometheus.ts';
import { createLogger } from '../../telemetry/create-logger.ts';
import { Scrubber } from '../../telemetry/scrubber.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { kubeconfigText } from '../../tenant-api/testing/kubeconfigs.ts';
import { runProcess } from '../run-process.ts';
import { addNode } from './tenant-api-rig.ts';

const PLATFORM_CRD = fileURLToPath(
  new URL('../../../e2e/simulator/manifests/platform.yaml', import.meta.url),
);
const POLICY = '/apis/meterfeed.io/v1alpha1/meteringpolicies';
const API_TOKEN = 'reads-and-changes-3c1d';
const ALERT_SECRET = 'alerts-7a41';

/** Tenant clusters of the host by what a test sees in them, each in a namespace of that name. */
export const TENANTS = ['plain', 'fallback', 'own', 'far', 'outside', 'here', 'there'] as const;
export type TenantName = (typeof TENANTS)[number];

/** Names that rows give TENANT_KUBECONFIG_SECRET. */
export const KUBECONFIG_SECRETS = ['svc-kubeconfig', 'set-kubeconfig', 'changed-kubeconfig'];

/**
 * A whole operator on a real API server, with Prometheus servers and a tenant cluster's own API
 * beside it.
 */
export interface PolicyWorld {
  readonly namespace: string;
  readonly prometheus: readonly FakePrometheus[];
  /** Puts a spec in the place of the policy's. */
  apply(spec: object): Promise<void>;
  /** `accepted`, or why the API server refuses a spec. */
  refusal(plural: 'meteringpolicies' | 'tenantoverrides', spec: object): Promise<string>;
  /** Reason and message of `Stalled`; undefined while the newest spec is in force. */
  stalled(): Promise<string | undefined>;
  /** Of `GET /api/v1/status`: why a tenant cluster's API cannot be read. */
  failure(tenant: TenantName): Promise<string | undefined>;
  /** Every tenant cluster, as `GET /api/v1/tenants/{tenant}` shows it. */
  clusters(): Promise<
    readonly { readonly name: string; readonly tenant: string; readonly instance?: string }[]
  >;
  /** What billing writes on the StatefulSet and Namespace of `plain`. */
  marks(): Promise<'none' | 'annotated' | 'suspended'>;
  /** The state that an alert of a type without a state of its own leads to. */
  alert(): Promise<string>;
  /** Whether usage of two hours ago is still taken. */
  takesOldUsage(): Promise<boolean>;
  /** What becomes of usage that is pushed for a tenant nobody knows: how much of it is held. */
  heldOfStranger(): Promise<number>;
  /** What `own` is billed for in windows that begin after a moment, as `metric namespace`. */
  billed(since: number): Promise<readonly string[]>;
  /** The capacity types of `own` in the newest window that begins after a moment. */
  capacityTypes(since: number): Promise<readonly string[]>;
  /**
   * Beginnings of the windows in which `plain` is billed for its instance, in order, as often as
   * they are billed.
   */
  instanceWindows(): Promise<readonly number[]>;
  stop(): Promise<void>;
}

interface OwnEvent {
  readonly window_start: string;
  readonly dimensions: { readonly capacity_type: string };
}

export async function startPolicyWorld(
  host: TestCluster,
  tenantApi: TestCluster,
  environment: Readonly<Record<string, string>>,
): Promise<PolicyWorld> {
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-policy-'));
  await installCustomResources(host);
  await host.installCRDs(PLATFORM_CRD);
  const namespace = await host.createNamespace('operator');
  await createTenants(host, tenantApi.kubeconfig);
  await createPrivateNode(tenantApi);
  const prometheus = await Promise.all([0, 1, 2].map(() => startFakePrometheus()));
  const port = await stablePort(join(directory, 'port'), 18_080);
  const address = `http://127.0.0.1:${port}`;
  const [first] = prometheus;
  const settings = settingsFrom({
    ...environment,
    DATA_DIR: join(directory, 'data'),
    LISTEN_ADDR: `127.0.0.1:${port}`,
    API_TOKEN,
    LAGO_WEBHOOK_SECRET: ALERT_SECRET,
    PROMETHEUS_URL: first?.url.replace('://', '://env:env-password@') ?? '',
  });
  const access = loadKubeConfig({ kind: 'file', path: host.kubeconfigPath });
  if (access.kind === 'invalid') throw new Error(access.reason);
  const stopping = new AbortController();
  const running = runProcess(
    {
      version: 'test',
      environment: settings,
      configuredMetrics: [],
      cluster: { kubeConfig: access.kubeConfig, namespace },
      instance: 'meterfeed-0',
      clock: systemClock,
      random: Math.random,
      logger: createLogger({ level: 'info', format: 'text', output: new PassThrough().resume() }),
      scrubber: new Scrubber(),
    },
    stopping.signal,
  );

  const callApi = async (method: string, path: string, body?: unknown, headers: object = {}) => {
    const response = await fetch(`${address}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${API_TOKEN}`,
        'content-type': 'application/json',
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    return response;
  };
  const json = async <T>(path: string): Promise<T> =>
    (await callApi('GET', path)).json() as Promise<T>;

  const world: PolicyWorld = {
    namespace,
    prometheus,
    apply: async (spec) => {
      await replaceSpec(host, `${POLICY}/default`, spec);
    },
    refusal: async (plural, spec) => {
      const kind = plural === 'meteringpolicies' ? 'MeteringPolicy' : 'TenantOverride';
      const path = `/apis/meterfeed.io/v1alpha1/${plural}?dryRun=All&fieldValidation=Strict`;
      const metadata = { name: 'default' };
      const object = { apiVersion: 'meterfeed.io/v1alpha1', kind, metadata, spec };
      const { status, body } = await host.request('POST', path, object);
      return status === 201 || status === 409 ? 'accepted' : String(body['message']);
    },
    stalled: async () => {
      const policy = (await host.call('GET', `${POLICY}/default`)) as {
        status?: { conditions?: readonly { type: string; reason: string; message: string }[] };
      };
      const found = policy.status?.conditions?.find(({ type }) => type === 'Stalled');
      return found && `${found.reason}: ${found.message}`;
    },
    failure: async (tenant) => {
      const { failed_tenant_apis: failed } = await json<{
        failed_tenant_apis: readonly { tenant_cluster: string; reason: string }[];
      }>('/api/v1/status');
      return failed.find(({ tenant_cluster: id }) => id === `tenant-${tenant}-${tenant}`)?.reason;
    },
    clusters: async () => {
      const { tenants } = await json<{ tenants: readonly { id: string }[] }>('/api/v1/tenants');
      const each = tenants.map(async ({ id }) => {
        const shown = await json<{
          tenant_clusters?: readonly { name: string; instance?: string }[];
        }>(`/api/v1/tenants/${id}`);
        return (shown.tenant_clusters ?? []).map((cluster) => ({ ...cluster, tenant: id }));
      });
      return (await Promise.all(each)).flat();
    },
    marks: async () => {
      const objects = await Promise.all([
        host.call('GET', '/api/v1/namespaces/plain'),
        host.call('GET', '/apis/apps/v1/namespaces/plain/statefulsets/plain'),
      ]);
      const metadata = objects.map((object) => {
        const { labels, annotations } = object['metadata'] as Record<string, unknown>;
        return JSON.stringify({ labels, annotations });
      });
      if (metadata.some((shown) => shown.includes('meterfeed.io/suspended'))) return 'suspended';
      return metadata.some((shown) => shown.includes('billing-state')) ? 'annotated' : 'none';
    },
    alert: async () => {
      const id = randomUUID();
      const body = JSON.stringify({
        webhook_type: 'customer.checked',
        object_type: 'customer',
        customer: { lago_id: id, external_customer_id: 'tenant-fallback-fallback' },
      });
      const signature = createHmac('sha256', ALERT_SECRET).update(body).digest('base64');
      const headers = { 'X-Lago-Signature': signature, 'X-Lago-Unique-Key': id };
      const answer = await (await callApi('POST', '/webhooks/billing_c', body, headers)).text();
      return /"state":"(\w+)"/.exec(answer)?.[1] ?? answer;
    },
    takesOldUsage: async () => {
      const end = Math.floor((Date.now() - 2 * 3_600_000) / 1000) * 1000;
      const event = {
        tenant: 'pushed',
        metric: 'tokens_used',
        quantity: 1,
        resource_id: randomUUID(),
        window_start: new Date(end - 10_000).toISOString(),
        window_end: new Date(end).toISOString(),
      };
      const answer = (await (await callApi('POST', '/api/v1/events', event)).json()) as {
        accepted?: number;
      };
      return answer.accepted === 1;
    },
    heldOfStranger: async () => {
      const end = Math.floor(Date.now() / 1000) * 1000;
      const event = {
        tenant: `stranger-${randomUUID()}`,
        metric: 'tokens_used',
        quantity: 1,
        window_start: new Date(end - 10_000).toISOString(),
        window_end: new Date(end).toISOString(),
      };
      const answer = (await (await callApi('POST', '/api/v1/events', event)).json()) as {
        held?: readonly { readonly events: number }[];
      };
      return answer.held?.[0]?.events ?? 0;
    },
    billed: async (since) => {
      const from = new Date(since).toISOString();
      const lines = (await (await callApi('GET', `/api/v1/events?from=${from}`)).text()).split(
        '\n',
      );
      const found = lines
        .filter((line) => line.includes('"tenant-own-own"'))
        .map((line) => JSON.parse(line) as { metric: string; dimensions?: Record<string, string> })
        .filter(({ metric }) => metric !== 'tenant_instance_hours')
        .map(({ metric, dimensions }) => `${metric} ${dimensions?.['namespace'] ?? ''}`.trim());
      return [...new Set(found)].toSorted();
    },
    capacityTypes: async (since) => {
      const query = `tenant=tenant-own-own&from=${new Date(since).toISOString()}`;
      const lines = (await (await callApi('GET', `/api/v1/events?${query}`)).text())
        .trim()
        .split('\n');
      const events = lines
        .filter((line) => line.includes('capacity_type'))
        .map((line) => JSON.parse(line) as OwnEvent);
      const newest = events
        .map((event) => event.window_start)
        .toSorted()
        .at(-1);
      const types = events
        .filter((event) => event.window_start === newest)
        .map(({ dimensions }) => dimensions.capacity_type);
      return [...new Set(types)].toSorted();
    },
    instanceWindows: async () => {
      const query = 'tenant=tenant-plain-plain&metric=tenant_instance_hours';
      const lines = (await (await callApi('GET', `/api/v1/events?${query}`)).text())
        .trim()
        .split('\n');
      return lines
        .map((line) => Date.parse((JSON.parse(line) as { window_start: string }).window_start))
        .toSorted((a, b) => a - b);
    },
    stop: async () => {
      stopping.abort();
      await running;
      await Promise.all(prometheus.map((server) => server.close()));
      await rm(directory, { recursive: true, force: true });
    },
  };
  const ended = running.then((end) => {
    throw new Error(`the operator has ended: ${JSON.stringify(end)}`);
  });
  ended.catch(() => undefined);
  await Promise.race([ready(address), ended]);
  const suspended = { state: 'suspended', reason: 'unpaid' };
  await callApi('PUT', '/api/v1/billing-states/tenant-plain-plain', suspended);
  return world;
}

/** The operator writes the status meanwhile, so that a version may be an old one already. */
export async function replaceSpec(host: TestCluster, path: string, spec: object): Promise<void> {
  for (;;) {
    const current = await host.call('GET', path);
    const { status, body } = await host.request('PUT', path, { ...current, spec });
    if (status === 200) return;
    if (status !== 409) throw new Error(`PUT ${path}: ${JSON.stringify(body)}`);
  }
}

async function ready(address: string): Promise<void> {
  for (let tries = 0; tries < 1_800; tries += 1) {
    const response = await fetch(`${address}/readyz`).catch(() => undefined);
    if (response?.ok === true) return;
    await systemClock.sleep(100);
  }
  throw new Error('the operator is not ready in three minutes');
}

async function createTenants(host: TestCluster, ownKubeconfig: string): Promise<void> {
  for (const name of TENANTS) {
    const isMissed = name === 'plain' || name === 'fallback';
    const annotations = isMissed ? { 'meterfeed.io/node-mode': 'private' } : {};
    await host.call('POST', '/api/v1/namespaces', { metadata: { name, annotations } });
    const labels = { app: 'vcluster', release: name };
    const path = `/apis/apps/v1/namespaces/${name}/statefulsets`;
    const made = await host.call('POST', path, {
      metadata: { name, labels },
      spec: {
        serviceName: name,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: { containers: [{ name: 'syncer', image: 'simulated/syncer' }] },
        },
      },
    });
    const status = { observedGeneration: 1, replicas: 1, readyReplicas: 1, availableReplicas: 1 };
    await host.call('PUT', `${path}/${name}/status`, { ...made, status });
  }
  const secret = (home: string, name: string, config: string) =>
    host.call('POST', `/api/v1/namespaces/${home}/secrets`, {
      metadata: { name },
      stringData: { config },
    });
  const far = kubeconfigText({ cluster: { server: 'https://198.51.100.9:6443' } });
  for (const name of KUBECONFIG_SECRETS) {
    await secret('own', name, ownKubeconfig);
    await secret('far', name, far);
  }
  await secret('fallback', 'vc-fallback', 'an admin kubeconfig that is none');
  await host.call('POST', '/api/v1/namespaces', { metadata: { name: 'p-team' } });
  for (const name of ['here', 'there']) {
    const api = '/apis/management.loft.sh/v1/namespaces/p-team/virtualclusterinstances';
    await host.call('POST', api, {
      apiVersion: 'management.loft.sh/v1',
      kind: 'VirtualClusterInstance',
      metadata: { name, annotations: { 'meterfeed.io/tenant': `told-by-${name}` } },
      spec: { clusterRef: { cluster: name, namespace: name, virtualCluster: name } },
    });
  }
}

/** Two nodes of `own`, with a pod in each of two namespaces on the larger. */
async function createPrivateNode(api: TestCluster): Promise<void> {
  const labels = { 'karpenter.sh/capacity-type': 'spot' };
  await addNode(api, 'node-1', { labels, capacity: { cpu: '8', memory: '16Gi', pods: '10' } });
  await addNode(api, 'node-2', { labels, capacity: { cpu: '4', memory: '8Gi', pods: '10' } });
  for (const name of ['lab', 'shop']) {
    await api.call('POST', '/api/v1/namespaces', { metadata: { name } });
    await api.request('POST', `/api/v1/namespaces/${name}/serviceaccounts`, {
      metadata: { name: 'default' },
    });
    const path = `/api/v1/namespaces/${name}/pods`;
    const made = await api.call('POST', path, {
      metadata: { name: 'worker' },
      spec: {
        nodeName: 'node-1',
        containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }],
      },
    });
    const startedAt = new Date(Math.floor(Date.now() / 1000) * 1000).toISOString();
    const container = { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0 };
    const containerStatuses = [{ ...container, state: { running: { startedAt } } }];
    const status = { phase: 'Running', containerStatuses };
    await api.call('PUT', `${path}/worker/status`, { ...made, status });
  }
}
