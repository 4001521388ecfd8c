import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { stablePort } from '../../../e2e/control-plane/ports.ts';
import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { installCustomResources } from '../../controllers/testing/install.ts';
import { settingsFrom } from '../../settings/testing/settings.ts';
import { createEstate, synced } from '../../billing/enforcement/testing/estate.ts';
import { loadKubeConfig } from '../../kubernetes/kube-config.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { createLogger } from '../../telemetry/create-logger.ts';
import { Scrubber } from '../../telemetry/scrubber.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { runProcess } from '../run-process.ts';
import { replaceSpec } from './policy-world.ts';

/** What `status.budgets.items` says of the tenant. */
export interface BudgetItem {
  readonly tenant: string;
  readonly amount: string;
  readonly used: string;
  readonly left: string;
  readonly unit: string;
  readonly usedUpAt?: string;
  readonly state: string;
}

/** A whole operator on a real API server, with one tenant cluster. */
export interface BudgetWorld extends AsyncDisposable {
  readonly namespace: string;
  readonly tenant: string;
  /** The operator's own namespace. */
  readonly own: string;
  /** Of its API. */
  readonly address: string;
  /** From when on it meters: the beginning of a window, milliseconds since the epoch. */
  readonly metersFrom: number;
  /** The one budget of the tenant, in a TenantOverride, from now on. */
  setBudget(budget: object): Promise<void>;
  /** Credits the tenant with core-hours; once for each key. */
  credit(key: string, amount: string): Promise<void>;
  /**
   * When nothing of its budget will be left, by the API, milliseconds since the epoch; NaN where
   * that is not known.
   */
  usedUpAt(): Promise<number>;
  /**
   * Makes a pod of the tenant with one core that has begun in this second, and gives that moment.
   */
  runPod(name: string): Promise<number>;
  /**
   * What the API server answers when the tenant's syncer tries to make a pod; nothing is kept of
   * it.
   */
  tryPod(): Promise<number>;
  /** What was told of the budget, sorted. */
  notices(): Promise<readonly string[]>;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** What the TenantOverride's status says; undefined while it says nothing. */
  item(): Promise<BudgetItem | undefined>;
}

const NAME = 'shop';
const WINDOW_MS = 10_000;
/** Reads and changes through the API of the world. */
export const API_TOKEN = 'api-canary-5b1e90d2';
const POLICY = '/apis/meterfeed.io/v1alpha1/meteringpolicies/default';
const EVENTS = '/apis/events.k8s.io/v1/namespaces/default/events';
const OVERRIDES = '/apis/meterfeed.io/v1alpha1/tenantoverrides';

export async function startBudgetWorld(
  host: TestCluster,
  environment: Readonly<Record<string, string>>,
  clock: Clock = systemClock,
): Promise<BudgetWorld> {
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-budgets-'));
  await installCustomResources(host);
  const own = await host.createNamespace('operator');
  // The installation of the world before it is no holder of this one.
  await host.request('DELETE', POLICY);
  const namespace = await host.createNamespace('tenant');
  const estate = createEstate(host);
  await estate.addTenantCluster(namespace, NAME);
  const syncer = await estate.syncer(namespace, `vc-${NAME}`);
  const override = `${OVERRIDES}/${namespace}`;
  await host.request('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, {
    metadata: { name: 'default' },
  });
  const port = await stablePort(join(directory, 'port'), 18_280);
  const settings = settingsFrom({
    COLLECTION_INTERVAL: `${WINDOW_MS / 1000}s`,
    RECONCILE_INTERVAL: '1s',
    CPU_MEMORY_BASIS: 'requests',
    API_TOKEN,
    ...environment,
    DATA_DIR: join(directory, 'data'),
    LISTEN_ADDR: `127.0.0.1:${port}`,
  });
  const access = loadKubeConfig({ kind: 'file', path: host.kubeconfigPath });
  if (access.kind === 'invalid') throw new Error(access.reason);
  const address = `http://127.0.0.1:${port}`;
  let process:
    | { readonly stopping: AbortController; readonly running: Promise<unknown> }
    | undefined;
  const start = async (): Promise<void> => {
    const stopping = new AbortController();
    const output = new PassThrough().resume();
    const running = runProcess(
      {
        version: 'test',
        environment: settings,
        configuredMetrics: [],
        cluster: { kubeConfig: access.kubeConfig, namespace: own },
        instance: 'meterfeed-0',
        clock,
        random: Math.random,
        logger: createLogger({ level: 'info', format: 'text', output }),
        scrubber: new Scrubber(),
      },
      stopping.signal,
    );
    process = { stopping, running };
    await ready(address);
  };
  const stop = async (): Promise<void> => {
    process?.stopping.abort();
    await process?.running;
  };
  await start();
  // The window in which the very first process starts is not metered
  // (docs/explanation/metering.md#the-first-window-the-window-size-and-the-clock).
  const metersFrom = Math.ceil(clock.now() / WINDOW_MS) * WINDOW_MS;
  const tenant = `tenant-${namespace}-${NAME}`;
  return {
    start,
    stop,
    namespace,
    own,
    address,
    metersFrom,
    tenant,
    setBudget: async (budget) => {
      const spec = { match: { namespace, name: NAME }, budget };
      const { status } = await host.request('POST', OVERRIDES, {
        apiVersion: 'meterfeed.io/v1alpha1',
        kind: 'TenantOverride',
        metadata: { name: namespace },
        spec,
      });
      if (status !== 201) await replaceSpec(host, override, spec);
    },
    credit: async (key, amount) => {
      await callTenant(address, `${tenant}/credits`, {
        method: 'POST',
        body: JSON.stringify({ key, amount, metric: 'tenant_cpu_core_hours' }),
      });
    },
    usedUpAt: async () => {
      const { budget } = (await callTenant(address, tenant)) as {
        budget?: { readonly used_up_at?: string };
      };
      return Date.parse(budget?.used_up_at ?? '');
    },
    runPod: (name) => runPod(host, { namespace, name, now: clock.now() }),
    tryPod: async () => (await syncer.tryPod(namespace, synced(NAME))).status,
    notices: async () => {
      const { items } = (await host.call('GET', EVENTS)) as { items: readonly ReportedEvent[] };
      return items
        .filter(({ reason, regarding }) => {
          return reason === 'BudgetThresholdReached' && regarding.name === namespace;
        })
        .map(({ note }) => note)
        .toSorted();
    },
    item: async () => {
      const { status } = (await host.call('GET', override)) as {
        status?: { budgets?: { items?: readonly BudgetItem[] } };
      };
      return status?.budgets?.items?.[0];
    },
    async [Symbol.asyncDispose]() {
      await stop();
      await estate[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

interface ReportedEvent {
  readonly reason: string;
  readonly note: string;
  readonly regarding: { readonly name: string };
}

async function runPod(
  host: TestCluster,
  {
    namespace,
    name,
    now,
  }: { readonly namespace: string; readonly name: string; readonly now: number },
): Promise<number> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const made = await host.call('POST', path, {
    metadata: { name, labels: synced(NAME) },
    spec: {
      nodeName: 'node-1',
      containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }],
    },
  });
  const at = Math.floor(now / 1000) * 1000;
  const startedAt = new Date(at).toISOString();
  const container = { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0 };
  const containerStatuses = [{ ...container, state: { running: { startedAt } } }];
  const status = { phase: 'Running', containerStatuses };
  await host.call('PUT', `${path}/${name}/status`, { ...made, status });
  return at;
}

async function callTenant(
  address: string,
  path: string,
  request: { readonly method?: string; readonly body?: string } = {},
): Promise<unknown> {
  const headers = { authorization: `Bearer ${API_TOKEN}`, 'content-type': 'application/json' };
  const response = await fetch(`${address}/api/v1/tenants/${path}`, { ...request, headers });
  if (!response.ok) throw new Error(`${path}: ${response.status}: ${await response.text()}`);
  return response.json();
}

async function ready(address: string): Promise<void> {
  for (let tries = 0; tries < 1_800; tries += 1) {
    const response = await fetch(`${address}/readyz`).catch(() => undefined);
    if (response?.ok === true) return;
    await systemClock.sleep(100);
  }
  throw new Error('the operator is not ready in three minutes');
}
