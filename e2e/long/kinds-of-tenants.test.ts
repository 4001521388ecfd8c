import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { manifest } from '../local/custom-resources.ts';
import { acceptPod, runContainers } from '../simulator/pod-lifecycle.ts';
import { type ApiClient, createApiClient } from '../simulator/api-client.ts';
import { podObject } from '../simulator/pods.ts';
import {
  type Bill,
  PATIENCE,
  prepareShippedProgram,
  type ShippedProgram,
} from './shipped-program.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const WINDOW_MS = 10_000;
const CPU = 'tenant_cpu_core_hours';
const TENANT = 'capsule.clastix.io/tenant';
const SYNCED = 'k3k.io/clusterName';

/** In a window of ten seconds 3.6 cores are 0.01 core-hours. */
const CORES = 3.6;
const perWindow = (parts: number): number => parts / 100;

/**
 * The program of the image under its own options of Node, with the rights that the manifests give it, on a cluster that has
 * tenant clusters of vCluster and k3k and tenants that are namespaces, some of which overlap.
 */
describe('tenants of several kinds on one cluster', () => {
  const cluster = useOwnTestCluster();
  const ending = new AbortController();
  let api: ApiClient;
  let program: ShippedProgram;

  const apply = (...objects: readonly object[]): Promise<string> =>
    cluster.kubectl(['apply', '--filename', '-'], manifest(objects));

  const run = async (
    namespace: string,
    name: string,
    labels: Readonly<Record<string, string>>,
    parts: number,
  ): Promise<void> => {
    const requests = { cpu: String(CORES * parts), memory: '1Gi' };
    const wanted = podObject({ namespace, name, labels }, 'node-1', requests, 'Always');
    const { object } = await api.ensure(wanted);
    await acceptPod(api, object, Date.now());
    await runContainers(api, object, Date.now());
  };

  const patchPolicy = (discovery: object): Promise<string> =>
    cluster.kubectl([
      'patch',
      'meteringpolicy',
      'default',
      '--type=merge',
      `--patch=${JSON.stringify({ spec: { discovery } })}`,
    ]);

  const problems = async (): Promise<unknown> =>
    (await program.get('/api/v1/status'))['discovery_problems'];

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
    await cluster.kubectl(['apply', '--kustomize', ROOT]);
    await cluster.kubectl(['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all']);
    await apply(...HOST, POLICY);
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

  test('what nobody asked for is billed to nobody', async () => {
    await until({ 'tenant-tenant-a-a': perWindow(2) });
  });

  test('namespaces are tenants from when the policy names them, and what is vCluster’s stays its own', async () => {
    await patchPolicy({ sources: ['vcluster', 'namespaces'], namespaceTenantKeys: [TENANT] });
    await until({ 'namespaces-acme': perWindow(1), 'tenant-tenant-a-a': perWindow(2) });
    await expect.poll(problems, PATIENCE).toEqual([WHOLE]);
  });

  test('a kind that may not be read changes nothing for those that are known', async () => {
    await cluster.kubectl(['apply', '--filename', join(ROOT, 'e2e/simulator/manifests/k3k.yaml')]);
    await cluster.kubectl(['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all']);
    await apply(K3K_CLUSTER);
    await run('k3k-blue', 'synced', { [SYNCED]: 'blue' }, 4);
    await run('k3k-blue', 'server', { cluster: 'blue', role: 'server' }, 8);
    await run('k3k-blue', 'stray', {}, 16);
    await patchPolicy({ sources: ['vcluster', 'k3k', 'namespaces'] });
    await expect
      .poll(problems, PATIENCE)
      .toEqual([expect.stringContaining('clusters.k3k.io'), WHOLE]);
    await expect.poll(statusOfPolicy, PATIENCE).toContain('discovery fails: clusters.k3k.io');
    // The namespace's label holds as before, as long as no round says otherwise.
    await until({
      'namespaces-acme': perWindow(1 + 4 + 8 + 16),
      'tenant-tenant-a-a': perWindow(2),
    });
  });

  test('with the rights of its component, a Cluster of k3k is billed once and its control plane is not', async () => {
    await cluster.kubectl(['apply', '--filename', join(ROOT, 'config/components/k3k/rbac.yaml')]);
    await until({
      'k3k-k3k-blue-blue': perWindow(4),
      'namespaces-acme': perWindow(1 + 16),
      'tenant-tenant-a-a': perWindow(2),
    });
    await expect.poll(problems, PATIENCE).toEqual([WHOLE, SHARED]);
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
    const parts = [...(await program.bills(CPU)).values()].map((bill) =>
      Object.values(bill).reduce((sum, quantity) => sum + quantity, 0),
    );
    expect(parts.length).toBeGreaterThan(5);
    // All that ran but the control plane of vCluster.
    for (const sum of parts) expect(sum).toBeLessThanOrEqual(perWindow(1 + 2 + 4 + 8 + 16) + 1e-9);
  });
});

const GIVEN = 'Namespaces that the kind namespaces gives to a tenant';
const WHOLE = `${GIVEN} are those of a more specific kind, which alone is billed for what is in them: tenant-a`;
const SHARED = `${GIVEN} hold tenant clusters of a more specific kind, which are billed for what their controllers brought, and the tenant for all else: k3k-blue`;

const POLICY = {
  apiVersion: 'meterfeed.io/v1alpha1',
  kind: 'MeteringPolicy',
  metadata: { name: 'default' },
  spec: {},
};

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
