import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { createEstate, synced } from '../../billing/enforcement/testing/estate.ts';
import { installCustomResources } from '../../controllers/testing/install.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import {
  type OperatorProcess,
  ownCluster,
  replaceSpec,
  startOperator,
} from './operator-process.ts';
import { runPod } from './run-pod.ts';

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
  /** Of the API of the process that runs. */
  readonly address: string;
  /** A request to its API. */
  readonly call: OperatorProcess['call'];
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
const WINDOW_MS = 5_000;
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
  let process: OperatorProcess | undefined;
  const start = async (): Promise<void> => {
    process = await startOperator({
      cluster: ownCluster(host.kubeconfigPath, own),
      environment: {
        RECONCILE_INTERVAL: '1s',
        CPU_MEMORY_BASIS: 'requests',
        'spec.settlingDelay': '1s',
        ...environment,
      },
      windowMs: WINDOW_MS,
      clock,
      directory,
    });
    await process.answers();
  };
  const stop = async (): Promise<void> => {
    await process?.stop();
  };
  const call: OperatorProcess['call'] = async (method, path, body) => {
    if (process === undefined) throw new Error('no process runs');
    const response = await process.call(method, path, body);
    if (!response.ok) throw new Error(`${path}: ${response.status}: ${await response.text()}`);
    return response;
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
    get address() {
      if (process === undefined) throw new Error('no process runs');
      return process.address;
    },
    call,
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
      const credit = { key, amount, metric: 'tenant_cpu_core_hours' };
      await call('POST', `/api/v1/tenants/${tenant}/credits`, credit);
    },
    usedUpAt: async () => {
      const response = await call('GET', `/api/v1/tenants/${tenant}`);
      const { budget } = (await response.json()) as { budget?: { readonly used_up_at?: string } };
      return Date.parse(budget?.used_up_at ?? '');
    },
    runPod: (name) => runPod(host, { namespace, name, labels: synced(NAME), now: clock.now() }),
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
