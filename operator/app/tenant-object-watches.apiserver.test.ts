import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { createSettingsStore } from '../settings/settings-store.ts';
import { CUSTOMER_ID_KEYS } from '../destinations/registry.ts';
import { Discovery } from '../discovery/discovery.ts';
import { createDiscoverySources, runSources } from '../discovery/testing/create-sources.ts';
import { settingsFrom } from '../discovery/testing/host.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { createTenantObjectWatches } from './tenant-object-watches.ts';

const crd = (kind: string): string =>
  fileURLToPath(new URL(`../../e2e/simulator/manifests/${kind}.yaml`, import.meta.url));

const cluster = useOwnTestCluster();
let connection: Connection;

beforeAll(() => {
  connection = connectWith(cluster.kubeconfig);
});

afterAll(async () => {
  await connection.close();
});

/** Discovery with the watches of all kinds, as it runs in the operator. */
function startDiscovery() {
  const logger = createCapturingLogger();
  const settings = createSettingsStore(settingsFrom({ RECONCILE_INTERVAL: '1s' }));
  const stop = new AbortController();
  const shared = {
    connection,
    clock: systemClock,
    random: Math.random,
    logger,
    labelPrefix: settings.current().identity.labelPrefix,
    watchNamespaces: [],
  };
  const sources = createDiscoverySources({
    ...shared,
    onChange: (departed) => discovery.request(departed),
  });
  const tenantObjects = createTenantObjectWatches({ ...shared, settings });
  const discovery: Discovery = new Discovery({
    sources: { ...sources, tenantObjects: tenantObjects.sources },
    settings,
    customerIdKeys: CUSTOMER_ID_KEYS,
    records: createMemoryLedger(),
    clock: systemClock,
    logger,
  });
  tenantObjects.subscribe(discovery.request);
  const running = Promise.all([
    runSources(sources, stop.signal),
    ...tenantObjects.components.map((component) => component.run(stop.signal)),
    discovery.run(stop.signal),
  ]);
  return {
    discovery,
    settings,
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

test('a kind that nobody looks for is watched, or one that is looked for later never is', async () => {
  const running = startDiscovery();
  const { discovery, settings } = running;
  await expect.poll(() => discovery.known(), { timeout: 20_000 }).toBe(true);
  expect(discovery.lastOutcome()).toEqual({ kind: 'found', clusters: [] });

  await cluster.installCRDs(crd('k3k'));
  const namespace = await cluster.createNamespace('k3k');
  const path = `/apis/k3k.io/v1beta1/namespaces/${namespace}/clusters`;
  const body = { apiVersion: 'k3k.io/v1beta1', kind: 'Cluster' };
  await cluster.call('POST', path, { ...body, metadata: { name: 'blue' } });
  settings.setPolicy({ discovery: { sources: ['vcluster', 'k3k'] } });
  const ids = () => discovery.clusters().map(({ id }) => id);
  await expect.poll(ids, { timeout: 20_000 }).toEqual([`k3k-${namespace}-blue`]);
  expect(discovery.clusters()).toMatchObject([{ source: 'k3k', nodeMode: 'shared' }]);

  const hcp = { ...body, metadata: { name: 'red' }, spec: { mode: 'hcp' } };
  await cluster.call('POST', path, hcp);
  await expect
    .poll(() => discovery.clusters().map(({ name, nodeMode }) => [name, nodeMode]), {
      timeout: 20_000,
    })
    .toEqual([
      ['blue', 'shared'],
      ['red', 'private'],
    ]);

  await cluster.call('DELETE', `${path}/blue`);
  await expect.poll(ids, { timeout: 20_000 }).toEqual([`k3k-${namespace}-red`]);
  await running.stop();
}, 90_000);

test.each([
  {
    kind: 'kamaji',
    api: 'kamaji.clastix.io/v1alpha1',
    plural: 'tenantcontrolplanes',
    object: 'TenantControlPlane',
    spec: { controlPlane: {}, kubernetes: { version: 'v1.35.0' } },
    status: { kubeconfig: { admin: { secretName: 'blue-admin' } } },
    secret: { name: 'blue-admin', key: 'admin.svc' },
  },
  {
    kind: 'hypershift',
    api: 'hypershift.openshift.io/v1beta1',
    plural: 'hostedclusters',
    object: 'HostedCluster',
    spec: { platform: { type: 'None' } },
    status: { kubeconfig: { name: 'blue-admin-kubeconfig' } },
    secret: { name: 'blue-admin-kubeconfig', key: 'kubeconfig' },
  },
  {
    kind: 'cluster-api',
    api: 'cluster.x-k8s.io/v1beta1',
    plural: 'clusters',
    object: 'Cluster',
    spec: { controlPlaneRef: { kind: 'KubeadmControlPlane', name: 'blue' } },
    status: { phase: 'Provisioned' },
    secret: { name: 'blue-kubeconfig', key: 'value' },
  },
] as const)(
  '$kind: what its product writes is not found',
  async (row) => {
    const { kind, api, plural, spec, status, secret } = row;
    await cluster.installCRDs(crd(kind));
    const namespace = await cluster.createNamespace('own');
    const path = `/apis/${api}/namespaces/${namespace}/${plural}`;
    const body = { apiVersion: api, kind: row.object, metadata: { name: 'blue' }, spec };
    const made = await cluster.call('POST', path, body);
    await cluster.call('PUT', `${path}/blue/status`, { ...made, status });
    const running = startDiscovery();
    running.settings.setPolicy({ discovery: { sources: ['vcluster', kind] } });
    const secretOf = () => running.discovery.clusters()[0]?.kubeconfigSecret;
    await expect.poll(secretOf, { timeout: 20_000 }).toEqual({ namespace, ...secret });
    expect(running.discovery.clusters()).toMatchObject([
      { id: `${kind}-${namespace}-blue`, source: kind, home: namespace, nodeMode: 'private' },
    ]);
    await running.stop();
  },
  90_000,
);
