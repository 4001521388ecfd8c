import type { TenantApiAccess } from '../../tenant-api/access.ts';
import { Registry } from 'prom-client';
import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { Settings } from '../../settings/settings.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { QueuedArrivals } from '../../kubernetes/live-view.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import type { Projected } from '../../kubernetes/source.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { NodeFixture } from '../../metering/meters/testing/gpu-nodes.ts';
import type { NodeView } from '../../metering/timelines/node.ts';
import { createObservation } from '../../metering/timelines/observation.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { TenantLimits } from '../../tenant-api/limits.ts';
import type { MissingKubeconfig, TenantApi } from '../../tenant-api/tenant-api.ts';
import { ForeignReader } from '../../tenant-api/reading/foreign-reader.ts';
import { TenantApis } from '../../tenant-api/tenant-apis.ts';
import type { MachineRecords } from '../../tenant-api/machine-records.ts';
import { fakeDiscovery, noMachineRecords } from '../../tenant-api/testing/tenant-clusters.ts';
import { createCollectorMetrics } from '../../metering/windows/collector-metrics.ts';
import { Collector } from '../../metering/windows/collector.ts';
import { restoreJournal } from '../../metering/windows/journal.ts';
import { createPodMetricsReader } from '../../metering/windows/pod-metrics.ts';
import type { WatchedSource } from '../../metering/windows/scope.ts';
import { restoreTenantApis } from '../../metering/windows/tenant-journal.ts';
import { settingsOf } from '../../metering/windows/testing/harness.ts';

export const WINDOW_MS = 1000;
const SETTLING_MS = 300;

export interface TenantApiRigOptions {
  readonly ledger: Ledger;
  readonly clusters: readonly TenantCluster[];
  /** Kubeconfigs of those tenant clusters, by id; without one it is a failure. */
  readonly kubeconfigs: Readonly<Record<string, string>>;
  readonly limits?: TenantLimits;
  /** The host's records of machines. */
  readonly machines?: MachineRecords;
  /** Nodes of the host. */
  readonly hostNodes?: readonly NodeView[];
}

/** Whole and quiet: what the host's watches show plays no part, but for its nodes. */
function quietSource<T extends Projected>(plural: string, objects: readonly T[] = []) {
  const source: WatchedSource<T> = {
    resource: { plural },
    ready: () => Promise.resolve(),
    resourceVersion: () => '1',
    find: (_namespace, name) => objects.find((object) => object.name === name),
    health: () => ({ state: 'synced', since: 0, freshAt: Date.now() }),
  };
  return source;
}

/** The tenant APIs that the test gives. */
export function handAccess(clusters: () => readonly TenantCluster[]) {
  const connections = new Map<string, Connection>();
  const listeners = new Set<() => void>();
  const report = (): void => {
    for (const listener of listeners) listener();
  };
  const access: Pick<TenantApiAccess, 'list' | 'missing' | 'subscribe'> = {
    list: () =>
      clusters().flatMap((cluster): TenantApi[] => {
        const connection = connections.get(cluster.id);
        return connection === undefined ? [] : [{ cluster, connection }];
      }),
    missing: () =>
      clusters().flatMap(({ id }): MissingKubeconfig[] =>
        connections.has(id)
          ? []
          : [{ tenantCluster: id, kind: 'absent', reason: 'no such Secret', since: 1 }],
      ),
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  return {
    access,
    give: (id: string, kubeconfig: string) => {
      connections.set(id, connectWith(kubeconfig));
      report();
    },
    withdraw: (id: string) => {
      void connections.get(id)?.close();
      connections.delete(id);
      report();
    },
    close: async () => {
      await Promise.all([...connections.values()].map((connection) => connection.close()));
    },
  };
}

/** Meters tenant clusters through their own, real API servers, in windows of a second. */
export async function startRig(options: TenantApiRigOptions) {
  const { ledger } = options;
  const clock = systemClock;
  const logger = createCapturingLogger();
  const base = settingsOf({});
  const metering = { ...base.metering, windowMs: WINDOW_MS, settlingDelayMs: SETTLING_MS };
  const settings: Settings = { ...base, metering };
  const common = { clock, random: Math.random, logger };
  const observing = {
    nodeSettings: () => metering,
    billedUntil: (present: number) => present,
  };
  const observation = createObservation(observing);
  const restored = await restoreJournal(ledger, observation, { logger, clock });
  const discovery = fakeDiscovery(...options.clusters);
  const access = handAccess(discovery.clusters);
  for (const [id, kubeconfig] of Object.entries(options.kubeconfigs)) access.give(id, kubeconfig);
  const nodes = quietSource('nodes', options.hostNodes);
  const reader = new ForeignReader(common);
  const apis = new TenantApis({
    ...common,
    access: access.access,
    reader,
    enabled: () => true,
    discovery: { ...discovery, known: () => true },
    tenantClusters: observation.tenantClusters,
    machines: options.machines ?? noMachineRecords(),
    host: {
      nodes,
      volumes: quietSource('persistentvolumeclaims'),
      loadBalancers: quietSource('services'),
    },
    observing,
    limits: options.limits,
  });
  const restoredTenants = await restoreTenantApis(ledger, (id) => apis.observe(id), {
    logger,
    clock,
  });
  apis.restore(restoredTenants);
  const metrics = createCollectorMetrics(new Registry());
  let severed = false;
  const gone = { kind: 'failed', cause: 'retryable', message: 'killed' } as const;
  const collector = new Collector({
    ...common,
    observation,
    // None of the host's objects change.
    arrivals: new QueuedArrivals(logger),
    restored,
    tenants: apis,
    restoredTenants,
    sources: {
      pods: quietSource('pods'),
      nodes,
      volumes: quietSource('persistentvolumeclaims'),
      loadBalancers: quietSource('services'),
      resourceClaims: quietSource('resourceclaims'),
      resourceSlices: quietSource('resourceslices'),
      workloads: [],
      namespaces: quietSource('namespaces'),
    },
    ledger: {
      ...ledger,
      append: async (batch) => (severed ? gone : ledger.append(batch)),
      writeRecords: async (changes) => (severed ? gone : ledger.writeRecords(changes)),
    },
    settings: () => settings,
    podMetrics: createPodMetricsReader({
      bytes: () => Promise.resolve({ kind: 'network', message: 'none' }),
    }),
    metrics,
    explanations: { recordsFor: async () => [] },
  });
  const observe = (clusters: readonly TenantCluster[]): void =>
    observation.tenantClusters.observe(clusters, clock.now());
  observe(options.clusters);
  const stop = new AbortController();
  const watching = async (): Promise<void> => {
    await apis.run(stop.signal);
    await reader.close();
  };
  const running = [watching(), collector.run(stop.signal)];
  const end = async (): Promise<void> => {
    stop.abort();
    await Promise.all(running);
    await access.close();
  };
  return {
    collector,
    apis,
    access,
    logger,
    metrics,
    discover: (...clusters: readonly TenantCluster[]) => {
      observe(clusters);
      discovery.find(...clusters);
    },
    /** As kill -9: nothing reaches the ledger any more. */
    kill: async () => {
      severed = true;
      await end();
    },
    stop: end,
  };
}

/** Waits until something is so. */
export async function waitUntil(
  isSo: () => boolean,
  what: string,
  withinMs = 20_000,
): Promise<void> {
  const begun = Date.now();
  while (!isSo()) {
    if (Date.now() - begun > withinMs) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Makes a node that is up at once. */
export async function addNode(api: TestCluster, name: string, fixture: NodeFixture): Promise<void> {
  const { labels = {}, capacity = {} } = fixture;
  const allocatable = capacity;
  const ready = { type: 'Ready', status: 'True', lastHeartbeatTime: new Date().toISOString() };
  const made = await api.call('POST', '/api/v1/nodes', {
    metadata: { name, labels },
    status: { capacity, allocatable, conditions: [ready] },
  });
  // The API server's admission taints every new node until something says that it is ready.
  await api.call('PUT', `/api/v1/nodes/${name}`, { ...made, spec: { taints: [] } });
}
