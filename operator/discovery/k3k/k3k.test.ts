import { describe, expect, test } from 'vitest';
import { attribute, type OwnershipLabels } from '../attribution.ts';
import { claimText } from '../control-plane.ts';
import { discoverHost, type Host } from '../testing/host.ts';
import { namespaceObject, workload } from '../testing/objects.ts';
import { k3kCluster } from './testing/objects.ts';

function find(host: Host) {
  return discoverHost({ ...host, environment: { 'spec.discovery.sources': 'vcluster,k3k' } });
}

test('who never enabled it gets bills for Clusters of k3k', () => {
  const objects = { k3k: [k3kCluster('k3k-blue', 'blue')] };
  expect(discoverHost({ objects }).clusters).toEqual([]);
});

test('a Cluster is a tenant cluster of its namespace, whose keys say whom it is billed to', () => {
  const { clusters, problems } = find({
    objects: { k3k: [k3kCluster('k3k-blue', 'blue', { created: '2026-03-01T00:00:00Z' })] },
    namespaces: [namespaceObject('k3k-blue', { labels: { 'meterfeed.io/tenant': 'acme' } })],
  });
  expect(problems).toEqual([]);
  expect(clusters).toMatchObject([
    {
      id: 'k3k-k3k-blue-blue',
      source: 'k3k',
      namespace: 'k3k-blue',
      home: 'k3k-blue',
      name: 'blue',
      tenant: 'acme',
      displayName: 'Tenant cluster k3k-blue-blue',
      nodeMode: 'shared',
      createdAt: Date.parse('2026-03-01T00:00:00Z'),
      kubeconfigSecret: {
        namespace: 'k3k-blue',
        name: 'k3k-blue-kubeconfig',
        key: 'kubeconfig.yaml',
      },
    },
  ]);
});

test('what its users write on a Cluster decides whose bill it is', () => {
  const annotations = { 'meterfeed.io/tenant': 'somebody-else' };
  const { clusters, problems } = find({
    objects: { k3k: [k3kCluster('k3k-blue', 'blue', { annotations })] },
  });
  expect(clusters).toMatchObject([{ tenant: 'k3k-k3k-blue-blue' }]);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain('blue: annotation meterfeed.io/tenant: ignored');
});

test('only mode hcp has nodes of its own, and nothing on the host cluster', () => {
  const modes = ['shared', 'virtual', 'hcp'].map((mode) => k3kCluster('n', mode, { mode }));
  const { clusters } = find({ objects: { k3k: modes } });
  expect(
    clusters.map(({ name, namespace, home, nodeMode }) => [name, namespace, home, nodeMode]),
  ).toEqual([
    ['hcp', '', 'n', 'private'],
    ['shared', 'n', 'n', 'shared'],
    ['virtual', 'n', 'n', 'shared'],
  ]);
});

test('the kubeconfig of a Cluster with a long name is looked for under a name that k3k does not use', () => {
  const name = 'a'.repeat(52);
  const { clusters } = find({ objects: { k3k: [k3kCluster('n', name)] } });
  expect(clusters[0]).not.toMatchObject({ kubeconfigSecret: expect.anything() });
});

test('one of vCluster and one of k3k in one place have different ids', () => {
  const { newIds } = find({
    workloads: [workload('n', 'a')],
    objects: { k3k: [k3kCluster('n', 'a')] },
  });
  expect(Object.fromEntries(newIds)).toEqual({ 'k3k:n/a': 'k3k-n-a', 'n/a': 'tenant-n-a' });
});

describe('whose an object is', () => {
  const { clusters: alone } = find({ objects: { k3k: [k3kCluster('n', 'a')] } });
  const { clusters: two } = find({
    objects: { k3k: [k3kCluster('n', 'a'), k3kCluster('n', 'b')] },
  });
  const { clusters: mixed } = find({
    workloads: [workload('n', 'v')],
    objects: { k3k: [k3kCluster('n', 'a')] },
  });

  function owner(written: Readonly<Record<string, string>>, clusters = alone): string {
    const claim = claimText((key) => written[key]);
    const { 'vcluster.loft.sh/managed-by': managedBy, app, release } = written;
    const labels: OwnershipLabels = {
      managedBy,
      app,
      release,
      claim,
    };
    const attribution = attribute({ namespace: 'n', labels }, clusters);
    return 'cluster' in attribution
      ? `${attribution.kind} ${attribution.cluster.name}`
      : attribution.kind;
  }

  test.each<readonly [what: string, labels: Readonly<Record<string, string>>, expected: string]>([
    ['what its syncer brought', { 'k3k.io/clusterName': 'a' }, 'tenant a'],
    [
      'what its syncer brought, labelled like the control plane',
      { 'k3k.io/clusterName': 'a', cluster: 'a', role: 'server' },
      'tenant a',
    ],
    [
      'what its syncer brought, labelled as vCluster’s',
      { 'k3k.io/clusterName': 'a', 'vcluster.loft.sh/managed-by': 'x' },
      'tenant a',
    ],
    ['a server', { cluster: 'a', role: 'server' }, 'control-plane a'],
    ['the syncer', { cluster: 'a', type: 'agent', mode: 'shared' }, 'control-plane a'],
    ['an agent that is a node', { cluster: 'a', type: 'agent', mode: 'virtual' }, 'tenant a'],
    ['one of a Cluster that is not there', { 'k3k.io/clusterName': 'c' }, 'unattributed'],
    ['the server of something else', { cluster: 'kafka', role: 'server' }, 'unattributed'],
    ['what nobody labelled', {}, 'unattributed'],
  ])('%s', (_what, labels, expected) => {
    expect(owner(labels)).toBe(expected);
  });

  test('in mode virtual a server is a node as well, and what its tenant runs inside is no control plane', () => {
    const { clusters } = find({ objects: { k3k: [k3kCluster('n', 'a', { mode: 'virtual' })] } });
    expect(owner({ cluster: 'a', role: 'server' }, clusters)).toBe('tenant a');
    expect(owner({ cluster: 'a', type: 'agent', mode: 'virtual' }, clusters)).toBe('tenant a');
  });

  test('several Clusters of one namespace are split', () => {
    expect(owner({ 'k3k.io/clusterName': 'b' }, two)).toBe('tenant b');
    expect(owner({ cluster: 'b', role: 'server' }, two)).toBe('control-plane b');
  });

  test.each<readonly [what: string, labels: Readonly<Record<string, string>>, expected: string]>([
    ['each kind’s own: vCluster’s', { 'vcluster.loft.sh/managed-by': 'v' }, 'tenant v'],
    ['each kind’s own: k3k’s', { 'k3k.io/clusterName': 'a' }, 'tenant a'],
    [
      'what both kinds could have written is nobody’s to guess',
      { 'vcluster.loft.sh/managed-by': 'v', 'k3k.io/clusterName': 'a' },
      'unattributed',
    ],
    [
      'a tenant’s pod that looks like a server of k3k',
      { 'vcluster.loft.sh/managed-by': 'v', cluster: 'a', role: 'server' },
      'tenant v',
    ],
    ['what nobody labelled', {}, 'unattributed'],
  ])('two kinds in one namespace: %s', (_what, labels, expected) => {
    expect(owner(labels, mixed)).toBe(expected);
  });

  describe('where metadata of the Namespace name a tenant as well', () => {
    const { clusters, problems } = discoverHost({
      objects: { k3k: [k3kCluster('n', 'a')] },
      namespaces: [namespaceObject('n', { labels: { team: 'acme' } })],
      environment: {
        'spec.discovery.sources': 'k3k,namespaces',
        'spec.discovery.namespaceTenantKeys': 'team',
      },
    });

    test.each<readonly [what: string, labels: Readonly<Record<string, string>>, expected: string]>([
      ['what its syncer brought is the Cluster’s alone', { 'k3k.io/clusterName': 'a' }, 'tenant a'],
      ['a server is', { cluster: 'a', role: 'server' }, 'control-plane a'],
      ['what nobody labelled is the tenant’s', {}, 'tenant acme'],
      [
        'what names a Cluster that is not there, so as to be billed to nobody, is the tenant’s',
        { 'k3k.io/clusterName': 'c' },
        'tenant acme',
      ],
    ])('%s', (_what, labels, expected) => {
      expect(owner(labels, clusters)).toBe(expected);
    });

    test('it is reported once', () => {
      expect(problems).toEqual([
        'Namespaces that the kind namespaces gives to a tenant contain tenant clusters of a more specific kind, which are billed for the objects of their controllers, and the tenant for all others: n',
      ]);
    });

    test('a namespace where vCluster has a tenant cluster as well is its own but for what k3k labels', () => {
      const three = discoverHost({
        workloads: [workload('n', 'v')],
        objects: { k3k: [k3kCluster('n', 'a')] },
        namespaces: [namespaceObject('n', { labels: { team: 'acme' } })],
        environment: {
          'spec.discovery.sources': 'vcluster,k3k,namespaces',
          'spec.discovery.namespaceTenantKeys': 'team',
        },
      });
      expect(three.clusters.map(({ id }) => id)).toEqual(['k3k-n-a', 'tenant-n-v']);
      expect(three.problems).toHaveLength(2);
    });
  });

  test('two kinds in one namespace are reported', () => {
    const { problems } = find({
      workloads: [workload('n', 'v')],
      objects: { k3k: [k3kCluster('n', 'a')] },
    });
    expect(problems).toEqual([
      "Namespace n: contains tenant clusters of several kinds (vcluster, k3k), whose tenants can write each other's labels: an object that two of them name is billed to nobody; give each kind a separate namespace",
    ]);
  });

  test('labels of k3k mean nothing where there is none', () => {
    const { clusters } = find({ workloads: [workload('n', 'v')] });
    expect(owner({ 'k3k.io/clusterName': 'a' }, clusters)).toBe('tenant v');
    expect(owner({ cluster: 'v', role: 'server' }, clusters)).toBe('tenant v');
  });
});
