import { describe, expect, test } from 'vitest';
import type { RawObject } from '../kubernetes/source.ts';
import { attribute } from './attribution.ts';
import { discoverHost, type Host } from './testing/host.ts';
import { namespaceObject } from './testing/objects.ts';

function object(namespace: string, name: string, more: RawObject = {}): RawObject {
  return {
    metadata: {
      uid: `${namespace}/${name}`,
      namespace,
      name,
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    ...more,
  };
}

function find(sources: string, host: Host) {
  return discoverHost({ ...host, environment: { 'spec.discovery.sources': sources } });
}

describe('a tenant cluster with nodes of its own is not found, or its credential is not', () => {
  type Kind = 'kamaji' | 'hypershift' | 'cluster-api';
  test.each<readonly [kind: Kind, made: RawObject, secret: object]>([
    [
      'kamaji',
      object('blue', 'prod', { status: { kubeconfig: { admin: { secretName: 'prod-admin' } } } }),
      { namespace: 'blue', name: 'prod-admin', key: 'admin.svc' },
    ],
    [
      'kamaji',
      object('blue', 'prod'),
      { namespace: 'blue', name: 'prod-admin-kubeconfig', key: 'admin.svc' },
    ],
    [
      'hypershift',
      object('blue', 'prod', { status: { kubeconfig: { name: 'prod-admin-kubeconfig' } } }),
      { namespace: 'blue', name: 'prod-admin-kubeconfig', key: 'kubeconfig' },
    ],
    [
      'cluster-api',
      object('blue', 'prod', { spec: { controlPlaneRef: { kind: 'KubeadmControlPlane' } } }),
      { namespace: 'blue', name: 'prod-kubeconfig', key: 'value' },
    ],
  ])('%s', (kind, made, kubeconfigSecret) => {
    const host = {
      objects: { [kind]: [made] },
      namespaces: [namespaceObject('blue', { labels: { 'meterfeed.io/tenant': 'acme' } })],
    };
    expect(discoverHost(host).clusters).toEqual([]);
    const { clusters, problems } = find(`vcluster,${kind}`, host);
    expect(problems).toEqual([]);
    expect(clusters).toMatchObject([
      {
        id: `${kind}-blue-prod`,
        source: kind,
        namespace: '',
        home: 'blue',
        name: 'prod',
        tenant: 'acme',
        nodeMode: 'private',
        kubeconfigSecret,
      },
    ]);
  });
});

test('the Machines of a tenant cluster are taken for another’s, whose name they have', () => {
  const labels = { 'cluster.x-k8s.io/cluster-name': 'shop' };
  const plain = object('blue', 'prod');
  const creationTimestamp = '2026-01-01T00:00:00Z';
  const metadata = { uid: 'blue/cp', namespace: 'blue', name: 'cp', creationTimestamp, labels };
  const managed = { metadata };
  const { clusters } = find('kamaji,hypershift', {
    objects: {
      kamaji: [plain, managed],
      hypershift: [object('red', 'prod', { spec: { infraID: 'prod-x7k2p' } })],
    },
  });
  expect(clusters.map(({ id, machineCluster }) => [id, machineCluster])).toEqual([
    ['hypershift-red-prod', 'prod-x7k2p'],
    ['kamaji-blue-cp', 'shop'],
    ['kamaji-blue-prod', undefined],
  ]);
});

test('what else is in the namespace of such an object is billed to it', () => {
  const { clusters } = find('cluster-api', { objects: { 'cluster-api': [object('n', 'a')] } });
  expect(clusters.filter(({ namespace }) => namespace === 'n')).toEqual([]);
});

test('from inside, a namespace of the name of its own one is not its own', () => {
  const { clusters } = find('cluster-api', { objects: { 'cluster-api': [object('n', 'a')] } });
  expect(attribute({ namespace: 'n', labels: {} }, clusters)).toMatchObject({ kind: 'tenant' });
});

describe('one tenant cluster is billed by two kinds', () => {
  const managed = object('blue', 'prod', {
    spec: { controlPlaneRef: { kind: 'KamajiControlPlane' } },
  });
  const objects = { kamaji: [object('blue', 'prod')], 'cluster-api': [managed] };

  test('the more specific one is, and that is reported once', () => {
    const { clusters, problems } = find('cluster-api,kamaji', { objects });
    expect(clusters.map(({ id }) => id)).toEqual(['kamaji-blue-prod']);
    expect(problems).toEqual([
      'Objects of cluster-api belong to tenants of a more specific kind, which alone are billed for them: blue/prod',
    ]);
  });

  test('without that kind it is Cluster API’s', () => {
    const { clusters, problems } = find('cluster-api', { objects });
    expect(clusters.map(({ id }) => id)).toEqual(['cluster-api-blue-prod']);
    expect(problems).toEqual([]);
  });
});
