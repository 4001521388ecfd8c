import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { createSettingsStore } from '../settings/settings-store.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { TenantClusterTimelines } from '../metering/timelines/tenant-cluster-timeline.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { createDiscoverySources, runSources } from './testing/create-sources.ts';
import { Discovery } from './discovery.ts';
import { settingsFrom } from './testing/host.ts';
import { CUSTOMER_ID_KEYS } from '../destinations/registry.ts';

const PLATFORM_CRD = fileURLToPath(
  new URL('../../e2e/simulator/manifests/platform.yaml', import.meta.url),
);
const PLATFORM_API = '/apis/management.loft.sh/v1/namespaces/p-team1/virtualclusterinstances';

const cluster = useOwnTestCluster();
let connection: Connection;

beforeAll(() => {
  connection = connectWith(cluster.kubeconfig);
});

afterAll(async () => {
  await connection.close();
});

/** Discovery as it runs in the operator, and the lines it has logged. */
function startDiscovery(through: Pick<Connection, 'request' | 'stream'> = connection) {
  const logger = createCapturingLogger();
  const environment = { TENANT_SOURCE: 'project', RECONCILE_INTERVAL: '1s' };
  const settings = createSettingsStore(settingsFrom(environment));
  const stop = new AbortController();
  const sources = createDiscoverySources({
    connection: through,
    clock: systemClock,
    random: Math.random,
    logger,
    labelPrefix: settings.current().identity.labelPrefix,
    watchNamespaces: [],
    timings: { absentProbe: 200 },
    onChange: (departed) => discovery.request(departed),
  });
  const records = createMemoryLedger();
  const discovery = new Discovery({
    sources,
    settings,
    customerIdKeys: CUSTOMER_ID_KEYS,
    records,
    clock: systemClock,
    logger,
  });
  const running = Promise.all([runSources(sources, stop.signal), discovery.run(stop.signal)]);
  return {
    discovery,
    statefulSets: sources.statefulSets,
    lines: logger.lines,
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

/** Resolves after the first round whose result satisfies the predicate. */
function found(discovery: Discovery, satisfies: () => boolean): Promise<void> {
  if (discovery.known() && satisfies()) return Promise.resolve();
  return new Promise((resolve) => {
    const leave = discovery.subscribe(() => {
      if (!satisfies()) return;
      leave();
      resolve();
    });
  });
}

async function createWorkload(
  plural: 'statefulsets' | 'deployments',
  namespace: string,
  name: string,
) {
  const labels = { app: 'vcluster', release: name };
  await cluster.call('POST', `/apis/apps/v1/namespaces/${namespace}/${plural}`, {
    metadata: { name, labels },
    spec: {
      serviceName: name,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: 'syncer', image: 'example.com/syncer' }] },
      },
    },
  });
}

test('tenant clusters of a real API server come, are enriched, relabelled and go', async () => {
  const namespace = await cluster.createNamespace('loft-team1-v-x');
  const running = startDiscovery();
  const { discovery, lines } = running;
  const tenants = () => discovery.clusters().map(({ name, tenant }) => [name, tenant]);
  await found(discovery, () => discovery.known());
  expect(tenants()).toStrictEqual([]);
  expect(lines.some((line) => line.includes('[discovery] found 0 '))).toBe(true);
  expect(lines).toContain(
    'info [discovery] platform API is absent; falling back to workload scanning',
  );

  await createWorkload('statefulsets', namespace, 'x');
  await createWorkload('deployments', namespace, 'x');
  await createWorkload('deployments', namespace, 'y');
  await found(discovery, () => discovery.clusters().length === 2);
  expect(tenants()).toStrictEqual([
    ['x', `tenant-${namespace}-x`],
    ['y', `tenant-${namespace}-y`],
  ]);
  const [x] = discovery.clusters();
  expect(Math.abs(Date.now() - (x?.createdAt ?? 0))).toBeLessThan(60_000);

  await cluster.installCRDs(PLATFORM_CRD);
  await cluster.call('POST', '/api/v1/namespaces', { metadata: { name: 'p-team1' } });
  await cluster.call('POST', PLATFORM_API, {
    apiVersion: 'management.loft.sh/v1',
    kind: 'VirtualClusterInstance',
    metadata: { name: 'x' },
    spec: { displayName: 'X', clusterRef: { cluster: 'c1', namespace, virtualCluster: 'x' } },
  });
  await found(discovery, () => discovery.clusters()[0]?.project === 'team1');
  expect(discovery.clusters()[0]).toMatchObject({ tenant: 'project-team1', displayName: 'X' });
  expect(lines).toContain('info [discovery] enriched 1 tenant cluster(s) from the platform');

  await cluster.kubectl(['label', 'namespace', namespace, 'meterfeed.io/tenant=acme']);
  await found(discovery, () => discovery.tenants().length === 1);
  expect(discovery.tenants()).toMatchObject([{ id: 'acme', displayName: 'X' }]);

  await cluster.call('DELETE', `/apis/apps/v1/namespaces/${namespace}/deployments/y`);
  await found(discovery, () => discovery.clusters().length === 1);

  await running.stop();
}, 60_000);

test('a namespace that a syncer maps is its tenant cluster’s within about a second, a new one since its creation', async () => {
  const home = await cluster.createNamespace('tenant-s');
  await createWorkload('statefulsets', home, 's');
  const imported = await cluster.createNamespace('imported');
  const running = startDiscovery();
  const { discovery } = running;
  const timelines = new TenantClusterTimelines();
  discovery.subscribe((clusters, at) => timelines.observe(clusters, at));
  const mappedOf = () =>
    discovery.clusters().find(({ namespace }) => namespace === home)?.syncedNamespaces ?? [];
  const begins = (namespace: string) => timelines.tenancies(namespace, 0, Infinity)[0]?.from ?? 0;
  const labels = {
    'vcluster.loft.sh/vcluster-name': 's',
    'vcluster.loft.sh/vcluster-namespace': home,
  };
  await found(discovery, () => discovery.clusters().some(({ namespace }) => namespace === home));

  const created = await cluster.createNamespace('new', labels);
  const createdAt = Date.now();
  await found(discovery, () => mappedOf().length === 1);
  expect(begins(created)).toBeLessThanOrEqual(createdAt);
  expect(begins(created)).toBeGreaterThan(createdAt - 5_000);

  const labelledAt = Date.now();
  await cluster.kubectl([
    'label',
    'namespace',
    imported,
    ...Object.entries(labels).map(([key, value]) => `${key}=${value}`),
  ]);
  await found(discovery, () => mappedOf().length === 2);
  expect(begins(imported)).toBeGreaterThanOrEqual(labelledAt);

  const unlabelledAt = Date.now();
  await cluster.kubectl(['label', 'namespace', imported, 'vcluster.loft.sh/vcluster-name-']);
  await found(discovery, () => mappedOf().length === 1);
  const [tenancy] = timelines.tenancies(imported, 0, Infinity);
  expect(tenancy?.to).toBeGreaterThanOrEqual(unlabelledAt);
  expect(tenancy?.to).toBeLessThan(Date.now());
  expect(discovery.problems().join()).toContain(`Namespace ${imported}: label`);
  await running.stop();
}, 60_000);

test('a tenant cluster that is installed and uninstalled while a watch fails is never found, and billed to nobody', async () => {
  const namespace = await cluster.createNamespace('brief');
  let fails = true;
  const failing = { kind: 'status', code: 503, reason: '', message: 'away' } as const;
  const isFailing = (path: string): boolean => fails && path.endsWith('/deployments');
  const running = startDiscovery({
    request: async (path, options) =>
      isFailing(path) ? failing : connection.request(path, options),
    stream: async (path, options) => (isFailing(path) ? failing : connection.stream(path, options)),
  });
  const { discovery, statefulSets } = running;
  const timelines = new TenantClusterTimelines();
  discovery.subscribe((clusters, at) => timelines.observe(clusters, at));
  const isSeen = () => statefulSets.find(namespace, 'brief') !== undefined;
  await createWorkload('statefulsets', namespace, 'brief');
  const createdAt = Date.now();
  await expect.poll(isSeen, { timeout: 10_000 }).toBe(true);
  await cluster.call('DELETE', `/apis/apps/v1/namespaces/${namespace}/statefulsets/brief`);
  await expect.poll(isSeen, { timeout: 10_000 }).toBe(false);
  expect(discovery.known()).toBe(false);

  fails = false;
  await found(discovery, () => discovery.clusters().every(({ name }) => name !== 'brief'));
  const [tenancy, left] = timelines.tenancies(namespace, 0, Infinity);
  expect(tenancy?.clusters.map(({ name }) => name)).toEqual(['brief']);
  expect(tenancy?.from).toBeLessThanOrEqual(createdAt);
  expect(left?.leaving?.map(({ cluster: { name } }) => name)).toEqual(['brief']);
  await running.stop();
}, 60_000);

test('W09: without the right to list, nobody is thought to be gone', async () => {
  const powerless = connectWith(await cluster.addUser('powerless'));
  const running = startDiscovery(powerless);
  const outcome = () => running.discovery.lastOutcome()?.kind;
  await expect.poll(outcome, { timeout: 10_000 }).toBe('failed');
  expect(running.discovery.known()).toBe(false);
  // Where a pass comes before the answers, it says that nothing is listed yet.
  await expect
    .poll(() => running.lines.join('\n'), { timeout: 10_000 })
    .toMatch(/^error \[discovery\] failed: statefulsets: .*403.*namespaces: .*403/m);
  await running.stop();
  await powerless.close();
});
