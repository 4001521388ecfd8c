import { afterEach, describe, expect, test } from 'vitest';
import type { Environment } from '../settings/load-environment.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { createAccessRig } from './testing/access-rig.ts';
import { kubeconfigText } from './testing/kubeconfigs.ts';
import { tenantCluster } from './testing/tenant-clusters.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

function rigOf(environment: Environment, ...clusters: readonly TenantCluster[]) {
  const rig = createAccessRig(environment, ...clusters);
  closers.push(rig.stop);
  return rig;
}

/** One of another kind than vCluster, with nodes of its own. */
function privateNodes(more: Partial<TenantCluster> = {}): TenantCluster {
  return tenantCluster('prod', {
    id: 'kamaji-blue-prod',
    source: 'kamaji',
    namespace: '',
    home: 'blue',
    nodeMode: 'private',
    kubeconfigSecret: { namespace: 'blue', name: 'prod-admin', key: 'admin.svc' },
    ...more,
  });
}

const FALLBACK = { TENANT_ADMIN_FALLBACK: 'true' };
const OWN_SERVICE = { cluster: { server: 'https://prod.blue.svc:6443' } };

describe('the kubeconfig of another kind of tenants is looked for in the wrong place', () => {
  test('a read-only one is where the custom resource is', async () => {
    const rig = rigOf({}, privateNodes());
    rig.put('blue/svc-kubeconfig', kubeconfigText(OWN_SERVICE));
    await rig.pass();
    expect(rig.access.list()).toHaveLength(1);
    expect(new Set(rig.requests)).toEqual(new Set(['blue/svc-kubeconfig']));
  });

  test('the one that its controllers write is the administrator’s, and taken where that is allowed', async () => {
    const without = rigOf({}, privateNodes());
    without.put('blue/prod-admin', kubeconfigText(OWN_SERVICE), 'admin.svc');
    await without.pass();
    expect(without.failures()).toEqual([
      'kamaji-blue-prod: no kubeconfig: Secret "blue/svc-kubeconfig": missing',
    ]);
    const rig = rigOf(FALLBACK, privateNodes());
    rig.put('blue/prod-admin', kubeconfigText(OWN_SERVICE), 'admin.svc');
    await rig.pass();
    expect(rig.access.list()).toHaveLength(1);
  });

  test('another key of that Secret is not taken', async () => {
    const rig = rigOf(FALLBACK, privateNodes());
    rig.put('blue/prod-admin', kubeconfigText(OWN_SERVICE), 'config');
    await rig.pass();
    expect(rig.access.list()).toEqual([]);
  });

  test('it leads to the Service of another', async () => {
    const rig = rigOf(FALLBACK, privateNodes());
    const server = { cluster: { server: 'https://other.blue.svc:6443' } };
    rig.put('blue/prod-admin', kubeconfigText(server), 'admin.svc');
    await rig.pass();
    expect(rig.access.list()).toEqual([]);
    expect(rig.failures()[0]).toContain(
      'neither the tenant cluster’s own Service (https://prod.blue.svc)',
    );
  });

  test('its name changes, and the operator goes on with the old one', async () => {
    const rig = rigOf(FALLBACK, privateNodes());
    rig.put('blue/next', kubeconfigText(OWN_SERVICE), 'admin.svc');
    await rig.pass();
    expect(rig.access.list()).toEqual([]);
    const kubeconfigSecret = { namespace: 'blue', name: 'next', key: 'admin.svc' };
    rig.discovery.find(privateNodes({ kubeconfigSecret }));
    await rig.pass();
    expect(rig.access.list()).toHaveLength(1);
  });
});

describe('what has no API of its own is queried for one, and its nodes are billed twice', () => {
  test.each<readonly [what: string, cluster: TenantCluster]>([
    [
      'namespaces',
      tenantCluster('acme', { source: 'namespaces', namespace: '', nodeMode: 'shared' }),
    ],
    [
      'a Cluster of k3k whose nodes are pods',
      tenantCluster('a', { source: 'k3k', nodeMode: 'shared' }),
    ],
  ])('%s', async (_what, cluster) => {
    const rig = rigOf(FALLBACK, cluster);
    rig.put('tenant-a/svc-kubeconfig', kubeconfigText());
    await rig.pass();
    expect(rig.requests).toEqual([]);
    expect(rig.access.list()).toEqual([]);
  });
});
