import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { type ApiClient, createApiClient } from '../simulator/api-client.ts';
import {
  apply,
  CPU,
  discoveryProblems,
  grant,
  installManifests,
  installResources,
  patchDiscovery,
  perWindow,
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

const TENANT = 'capsule.clastix.io/tenant';
const SYNCED = 'k3k.io/clusterName';

/**
 * The program of the image under its own options of Node, with the rights that the manifests give it, on a cluster that has
 * tenant clusters of vCluster and k3k and tenants that are namespaces, some of which overlap.
 */
describe('tenants of several kinds on one cluster', () => {
  const cluster = useOwnTestCluster();
  const ending = new AbortController();
  let api: ApiClient;
  let program: ShippedProgram;

  const run = (
    namespace: string,
    name: string,
    labels: Readonly<Record<string, string>>,
    parts: number,
  ): Promise<void> => runPod(api, { namespace, name, labels }, 'node-1', parts);

  const patchPolicy = (discovery: object): Promise<string> => patchDiscovery(cluster, discovery);

  const problems = (): Promise<unknown> => discoveryProblems(program);

  const statusOfPolicy = (): Promise<string> =>
    cluster.kubectl(['get', 'meteringpolicy', 'default', '--output=json']);

  const until = async (expected: Bill): Promise<void> => {
    await vi.waitFor(async () => expect(await program.nextBill(CPU)).toEqual(expected), PATIENCE);
  };

  beforeAll(async () => {
    program = await prepareShippedProgram({
      cluster,
      name: 'kinds-of-tenants',
      windowMs: WINDOW_MS,
    });
    api = createApiClient(cluster.credentials, ending.signal);
    await installManifests(cluster);
    await apply(cluster, ...HOST, POLICY);
    await run('team-1', 'own', {}, 1);
    await run('tenant-a', 'synced', { 'vcluster.loft.sh/managed-by': 'a' }, 2);
    await run('tenant-a', 'control-plane', { app: 'vcluster', release: 'a' }, 64);
    await program.start();
  }, 600_000);
  afterAll(async () => {
    await program?.stop();
    ending.abort();
    await api?.close();
  });

  test('a tenant of a kind that the policy does not name is billed', async () => {
    await until({ 'tenant-tenant-a-a': perWindow(2) });
  });

  test('namespaces are tenants from when the policy names them, and what is vCluster’s stays its own', async () => {
    await patchPolicy({ sources: ['vcluster', 'namespaces'], namespaceTenantKeys: [TENANT] });
    await until({ 'namespaces-acme': perWindow(1), 'tenant-tenant-a-a': perWindow(2) });
    await expect.poll(problems, PATIENCE).toEqual([COMPLETE]);
  });

  test('a kind that may not be read changes nothing for those that are known', async () => {
    await installResources(cluster, 'k3k');
    await apply(cluster, K3K_CLUSTER);
    await run('k3k-blue', 'synced', { [SYNCED]: 'blue' }, 4);
    await run('k3k-blue', 'server', { cluster: 'blue', role: 'server' }, 8);
    await run('k3k-blue', 'stray', {}, 16);
    await patchPolicy({ sources: ['vcluster', 'k3k', 'namespaces'] });
    await expect
      .poll(problems, PATIENCE)
      .toEqual([expect.stringContaining('clusters.k3k.io'), COMPLETE]);
    await expect.poll(statusOfPolicy, PATIENCE).toContain('discovery fails: clusters.k3k.io');
    // The namespace's label holds as before, as long as no round says otherwise.
    await until({
      'namespaces-acme': perWindow(1 + 4 + 8 + 16),
      'tenant-tenant-a-a': perWindow(2),
    });
  });

  test('with the rights of its component, a Cluster of k3k is billed once and its control plane is not', async () => {
    await grant(cluster, 'k3k');
    await until({
      'k3k-k3k-blue-blue': perWindow(4),
      'namespaces-acme': perWindow(1 + 16),
      'tenant-tenant-a-a': perWindow(2),
    });
    await expect.poll(problems, PATIENCE).toEqual([COMPLETE, SHARED]);
  });

  test('after the process is killed, a namespace that moved is the next tenant’s', async () => {
    await program.kill();
    await cluster.kubectl(['label', 'namespace', 'team-1', `${TENANT}=umbrella`, '--overwrite']);
    await program.start();
    await until({
      'k3k-k3k-blue-blue': perWindow(4),
      'namespaces-acme': perWindow(16),
      'namespaces-umbrella': perWindow(1),
      'tenant-tenant-a-a': perWindow(2),
    });
  });

  test('no window was billed for more than what ran', async () => {
    const parts = await windowSums(program, CPU);
    expect(parts.length).toBeGreaterThan(5);
    // All that ran but the control plane of vCluster.
    for (const sum of parts) expect(sum).toBeLessThanOrEqual(perWindow(1 + 2 + 4 + 8 + 16) + 1e-9);
  });
});

const GIVEN = 'Namespaces that the kind namespaces gives to a tenant';
const COMPLETE = `${GIVEN} belong to a more specific kind, which alone is billed for everything in them: tenant-a`;
const SHARED = `${GIVEN} contain tenant clusters of a more specific kind, which are billed for the objects of their controllers, and the tenant for all others: k3k-blue`;

const K3K_CLUSTER = {
  apiVersion: 'k3k.io/v1beta1',
  kind: 'Cluster',
  metadata: { name: 'blue', namespace: 'k3k-blue' },
};

/** All three namespaces say that they are of one tenant. */
const HOST: readonly object[] = [
  ...['team-1', 'tenant-a', 'k3k-blue'].map((name) => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { [TENANT]: 'acme' } },
  })),
  {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'a', namespace: 'tenant-a', labels: { app: 'vcluster', release: 'a' } },
    spec: {
      serviceName: 'a',
      selector: { matchLabels: { app: 'vcluster', release: 'a' } },
      template: {
        metadata: { labels: { app: 'vcluster', release: 'a' } },
        spec: { containers: [{ name: 'control-plane', image: 'example.com/vcluster' }] },
      },
    },
  },
];
