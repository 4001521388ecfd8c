import { createHmac, randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { installCustomResources } from '../../controllers/testing/install.ts';
import {
  type FakePrometheus,
  startFakePrometheus,
} from '../../prometheus/testing/fake-prometheus.ts';
import { kubeconfigText } from '../../tenant-api/testing/kubeconfigs.ts';
import { ownCluster, replaceSpec, startOperator } from './operator-process.ts';
import { runPod } from './run-pod.ts';
import { addNode } from './tenant-api-rig.ts';

const PLATFORM_CRD = fileURLToPath(
  new URL('../../../e2e/simulator/manifests/platform.yaml', import.meta.url),
);
const POLICY = '/apis/meterfeed.io/v1alpha1/meteringpolicies';
const ALERT_SECRET = 'alerts-7a41';

/** Tenant clusters of the host by what a test sees in them, each in a namespace of that name. */
export const TENANTS = ['plain', 'fallback', 'own', 'far', 'outside', 'here', 'there'] as const;
export type TenantName = (typeof TENANTS)[number];

/** Names that rows give TENANT_KUBECONFIG_SECRET. */
export const KUBECONFIG_SECRETS = ['svc-kubeconfig', 'set-kubeconfig', 'changed-kubeconfig'];

/** Length of its windows, milliseconds. */
export const WINDOW_MS = 2_000;

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
  /**
   * What `own` is billed for in the newest window that begins after a moment, as
   * `metric namespace`.
   */
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
  readonly metric: string;
  readonly window_start: string;
  readonly dimensions?: Readonly<Record<string, string>>;
}

export async function startPolicyWorld(
  host: TestCluster,
  tenantApi: TestCluster,
  environment: Readonly<Record<string, string>>,
): Promise<PolicyWorld> {
  await installCustomResources(host);
  await host.installCRDs(PLATFORM_CRD);
  const namespace = await host.createNamespace('operator');
  await createTenants(host, tenantApi.kubeconfig);
  await createPrivateNode(tenantApi);
  const prometheus = await Promise.all([0, 1, 2].map(() => startFakePrometheus()));
  const [first] = prometheus;
  const process = await startOperator({
    cluster: ownCluster(host.kubeconfigPath, namespace),
    environment: {
      'spec.settlingDelay': '500ms',
      ...environment,
      LAGO_WEBHOOK_SECRET: ALERT_SECRET,
      PROMETHEUS_URL: first?.url.replace('://', '://env:env-password@') ?? '',
    },
    windowMs: WINDOW_MS,
  });
  const callApi = process.call;
  const json = async <T>(path: string): Promise<T> =>
    (await callApi('GET', path)).json() as Promise<T>;

  const eventsOf = async (query: string): Promise<readonly OwnEvent[]> => {
    const lines = (await (await callApi('GET', `/api/v1/events?${query}`)).text()).split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as OwnEvent);
  };
  const newestOfOwn = async (since: number): Promise<readonly OwnEvent[]> => {
    const from = new Date(since).toISOString();
    const events = await eventsOf(`tenant=tenant-own-own&from=${from}`);
    const newest = events.map((event) => event.window_start).toSorted();
    return events.filter((event) => event.window_start === newest.at(-1));
  };

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
      const found = (await newestOfOwn(since))
        .filter(({ metric }) => metric !== 'tenant_instance_hours')
        .map(({ metric, dimensions }) => `${metric} ${dimensions?.['namespace'] ?? ''}`.trim());
      return [...new Set(found)].toSorted();
    },
    capacityTypes: async (since) => {
      const types = (await newestOfOwn(since)).flatMap(
        ({ dimensions }) => dimensions?.['capacity_type'] ?? [],
      );
      return [...new Set(types)].toSorted();
    },
    instanceWindows: async () => {
      const events = await eventsOf('tenant=tenant-plain-plain&metric=tenant_instance_hours');
      return events.map((event) => Date.parse(event.window_start)).toSorted((a, b) => a - b);
    },
    stop: async () => {
      await process.stop();
      await Promise.all(prometheus.map((server) => server.close()));
    },
  };
  await process.answers();
  const suspended = { state: 'suspended', reason: 'unpaid' };
  await callApi('PUT', '/api/v1/billing-states/tenant-plain-plain', suspended);
  return world;
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
    await runPod(api, { namespace: name, name: 'worker' });
  }
}
