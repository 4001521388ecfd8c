import { describe, expect, test } from 'vitest';
import { discoverHost, type Host } from '../testing/host.ts';
import { namespaceObject, type ObjectOptions, workload } from '../testing/objects.ts';

const BOTH = { 'spec.discovery.sources': 'vcluster,namespaces' };
const KEY = 'capsule.clastix.io/tenant';

function of(tenant: string, more: ObjectOptions = {}): ObjectOptions {
  return { ...more, labels: { [KEY]: tenant, ...more.labels } };
}

function find({ environment, ...host }: Host) {
  return discoverHost({
    ...host,
    environment: { ...BOTH, 'spec.discovery.namespaceTenantKeys': KEY, ...environment },
  });
}

/** The namespaces of each tenant, by id. */
function namespacesOf(host: Host): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    find(host).clusters.map(({ id, syncedNamespaces = [] }) => [
      id,
      syncedNamespaces.map(({ name }) => name),
    ]),
  );
}

test('who never enabled it gets bills for labelled namespaces', () => {
  const namespaces = [namespaceObject('team-1', of('acme'))];
  const host = { namespaces, environment: { 'spec.discovery.sources': 'vcluster' } };
  expect(find(host).clusters).toEqual([]);
});

test('all namespaces of a tenant are one tenant, since the oldest of them', () => {
  const namespaces = [
    namespaceObject('team-2', of('acme', { created: '2026-02-01T00:00:00Z' })),
    namespaceObject('team-1', of('acme', { created: '2026-03-01T00:00:00Z' })),
    namespaceObject('other', of('umbrella')),
    namespaceObject('nobodys'),
  ];
  const { clusters, problems } = find({ namespaces });
  expect(problems).toEqual([]);
  expect(clusters).toMatchObject([
    {
      id: 'namespaces-acme',
      source: 'namespaces',
      namespace: '',
      name: 'acme',
      tenant: 'namespaces-acme',
      displayName: 'acme',
      nodeMode: 'shared',
      createdAt: Date.parse('2026-02-01T00:00:00Z'),
      syncedNamespaces: [{ name: 'team-1' }, { name: 'team-2' }],
    },
    { id: 'namespaces-umbrella' },
  ]);
});

describe('the tenant of a namespace is read from the wrong place', () => {
  test.each<readonly [what: string, keys: string, options: ObjectOptions, id: string]>([
    ['Capsule', 'capsule.clastix.io/tenant', of('oil'), 'namespaces-oil'],
    [
      'Rancher: the annotation before the label, which lacks the cluster',
      'field.cattle.io/projectId',
      {
        annotations: { 'field.cattle.io/projectId': 'c-m-x:p-y' },
        labels: { 'field.cattle.io/projectId': 'p-y' },
      },
      'namespaces-c-m-x-p-y',
    ],
    [
      'OpenShift',
      'openshift.io/requester',
      { annotations: { 'openshift.io/requester': 'alice@example.com' } },
      'namespaces-alice-example.com',
    ],
    [
      'hierarchical namespaces: the root of the tree',
      '*.tree.hnc.x-k8s.io/depth',
      {
        labels: {
          'team-1.tree.hnc.x-k8s.io/depth': '0',
          'division.tree.hnc.x-k8s.io/depth': '1',
          'acme.tree.hnc.x-k8s.io/depth': '2',
        },
      },
      'namespaces-acme',
    ],
    [
      'the first key that has a value',
      'projectcapsule.dev/tenant,capsule.clastix.io/tenant',
      of('gas'),
      'namespaces-gas',
    ],
  ])('%s', (_what, keys, options, id) => {
    const namespaces = [namespaceObject('team-1', options)];
    const environment = { 'spec.discovery.namespaceTenantKeys': keys };
    expect(namespacesOf({ namespaces, environment })).toEqual({ [id]: ['team-1'] });
  });

  test('without a key of its own, the metadata key tenant names both tenant and customer', () => {
    const labels = { 'meterfeed.io/tenant': 'acme' };
    const { clusters } = find({
      namespaces: [namespaceObject('team-1', { labels })],
      environment: { 'spec.discovery.namespaceTenantKeys': 'none' },
    });
    expect(clusters).toMatchObject([{ id: 'namespaces-acme', name: 'acme', tenant: 'acme' }]);
  });

  test('a value that can be no id is refused and reported', () => {
    const annotations = { 'openshift.io/requester': 'a\u2028b' };
    const { clusters, problems } = find({
      namespaces: [namespaceObject('team-1', { annotations })],
      environment: { 'spec.discovery.namespaceTenantKeys': 'openshift.io/requester' },
    });
    expect(clusters).toEqual([]);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(
      'Namespace team-1: openshift.io/requester: contains control characters',
    );
  });
});

describe('a namespace is billed twice', () => {
  test('one that holds a tenant cluster’s control plane, or that its syncer maps, is that one’s', () => {
    const mapped = {
      'vcluster.loft.sh/vcluster-namespace': 'tenant-a',
      'vcluster.loft.sh/vcluster-name': 'a',
    };
    const host = {
      workloads: [workload('tenant-a', 'a')],
      namespaces: [
        namespaceObject('tenant-a', of('acme', { created: '2025-01-01T00:00:00Z' })),
        namespaceObject('mapped', of('acme', { labels: mapped })),
        namespaceObject('team-1', of('acme', { created: '2026-05-01T00:00:00Z' })),
      ],
    };
    const { clusters, problems } = find(host);
    expect(
      clusters.map(({ id, syncedNamespaces = [] }) => [id, syncedNamespaces.map((n) => n.name)]),
    ).toEqual([
      ['namespaces-acme', ['team-1']],
      ['tenant-tenant-a-a', ['mapped']],
    ]);
    expect(clusters[0]?.createdAt).toBe(Date.parse('2026-05-01T00:00:00Z'));
    expect(problems).toEqual([
      'Namespaces that the kind namespaces gives to a tenant belong to a more specific kind, which alone is billed for everything in them: mapped, tenant-a',
    ]);
  });

  test('one that is refused to a tenant cluster stays nobody’s', () => {
    const mapped = {
      'vcluster.loft.sh/vcluster-namespace': 'tenant-a',
      'vcluster.loft.sh/vcluster-name': 'gone',
    };
    const namespaces = [namespaceObject('team-1', of('acme', { labels: mapped }))];
    const { clusters, refusedNamespaces } = find({ namespaces });
    expect(clusters).toEqual([]);
    expect([...refusedNamespaces]).toEqual(['team-1']);
  });
});

describe('what is nobody’s tenant is billed to one', () => {
  test('Kubernetes’ own namespaces and the operator’s', () => {
    const namespaces = ['kube-system', 'meterfeed-system'].map((name) =>
      namespaceObject(name, of('acme')),
    );
    expect(namespacesOf({ namespaces })).toEqual({});
  });

  test('one that is excluded; the others of its tenant are billed', () => {
    const exclude = { annotations: { 'meterfeed.io/exclude': 'true' } };
    const namespaces = [
      namespaceObject('lab', of('acme', exclude)),
      namespaceObject('team-1', of('acme')),
    ];
    expect(namespacesOf({ namespaces })).toEqual({ 'namespaces-acme': ['team-1'] });
  });

  test('one that WATCH_NAMESPACES leaves out', () => {
    const namespaces = [namespaceObject('team-1', of('acme')), namespaceObject('far', of('acme'))];
    const environment = { WATCH_NAMESPACES: 'team-1' };
    expect(namespacesOf({ namespaces, environment })).toEqual({ 'namespaces-acme': ['team-1'] });
  });
});

test('the metadata of any of its namespaces count for a tenant, and TenantOverrides find it by them', () => {
  const namespaces = [
    namespaceObject('team-1', of('acme', { labels: { tier: 'gold' } })),
    namespaceObject('team-2', of('acme', { annotations: { 'meterfeed.io/plan': 'large' } })),
  ];
  const override = {
    name: 'gold',
    createdAt: 0,
    match: { kind: 'labels', matchLabels: { tier: 'gold' }, matchExpressions: [] },
    tenantClass: 'first',
  } as const;
  const { clusters } = find({ namespaces, overrides: [override] });
  expect(clusters).toMatchObject([{ plan: 'large', tenantClass: 'first', overrides: ['gold'] }]);
});

test('two tenants whose names make the same id get different ones, and keep them', () => {
  const [a, b] = ['c-x:p-y', 'c-x-p-y'].map((project, index) =>
    namespaceObject(`team-${index}`, {
      annotations: { 'field.cattle.io/projectId': project },
      created: `2026-01-0${index + 1}T00:00:00Z`,
    }),
  );
  const environment = { 'spec.discovery.namespaceTenantKeys': 'field.cattle.io/projectId' };
  const first = find({ namespaces: [a ?? {}, b ?? {}], environment });
  const ids = first.clusters.map(({ id }) => id);
  expect(new Set(ids).size).toBe(2);
  expect(ids).toContain('namespaces-c-x-p-y');
  const again = find({ namespaces: [b ?? {}], environment, assignedIds: first.newIds });
  expect(again.clusters.map(({ id }) => id)).toEqual(
    ids.filter((id) => id !== 'namespaces-c-x-p-y'),
  );
});

test('a tenant cluster and a tenant of the same name have different places', () => {
  const host = {
    workloads: [workload('a', 'b')],
    namespaces: [namespaceObject('team-1', of('b')), namespaceObject('a')],
  };
  expect(Object.fromEntries(find(host).newIds)).toEqual({
    'a/b': 'tenant-a-b',
    'namespaces:/b': 'namespaces-b',
  });
});
