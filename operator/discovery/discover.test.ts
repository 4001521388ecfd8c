import { describe, expect, test } from 'vitest';
import type { ListedCluster } from './external-file.ts';
import { discoverHost, type Host } from './testing/host.ts';
import { instance, namespaceObject, workload } from './testing/objects.ts';

function clustersOf(host: Host) {
  return discoverHost(host).clusters;
}

function idsOf(host: Host): readonly string[] {
  return clustersOf(host).map(({ id }) => id);
}

/** By id, whom each tenant cluster is billed to. */
function tenantsOf(host: Host): Readonly<Record<string, string>> {
  return Object.fromEntries(clustersOf(host).map(({ id, tenant }) => [id, tenant]));
}

describe('a tenant cluster is missed, or counted twice', () => {
  test.each<readonly [reason: string, host: Host, ids: readonly string[]]>([
    [
      'I03: a Deployment alone',
      { workloads: [workload('tenant-a', 'a', { kind: 'Deployment' })] },
      ['tenant-tenant-a-a'],
    ],
    [
      'I01: replicas of one StatefulSet are one',
      { workloads: [{ ...workload('tenant-a', 'a'), spec: { replicas: 3 } }] },
      ['tenant-tenant-a-a'],
    ],
    [
      'I02: a StatefulSet and a Deployment of one release are one',
      {
        workloads: [workload('tenant-a', 'a'), workload('tenant-a', 'a', { kind: 'Deployment' })],
      },
      ['tenant-tenant-a-a'],
    ],
    [
      'the specified label counts like the real one',
      { workloads: [workload('tenant-a', 'a', { labels: { app: 'tenant-cluster' } })] },
      ['tenant-tenant-a-a'],
    ],
    [
      'without a release label the object’s name counts',
      { workloads: [workload('tenant-a', 'a', { labels: { release: '' } })] },
      ['tenant-tenant-a-a'],
    ],
    [
      'I05: etcd alone is no tenant cluster',
      { workloads: [workload('tenant-a', 'a', { labels: { app: 'vcluster-etcd' } })] },
      [],
    ],
    [
      'a nested tenant cluster is its outer one’s workload',
      {
        workloads: [
          workload('tenant-a', 'inner', { labels: { 'vcluster.loft.sh/managed-by': 'a' } }),
        ],
      },
      [],
    ],
    [
      'G35: two in one namespace',
      { workloads: [workload('tenant-a', 'a'), workload('tenant-a', 'b')] },
      ['tenant-tenant-a-a', 'tenant-tenant-a-b'],
    ],
    [
      'I04: a paused one is still there',
      {
        workloads: [workload('tenant-a', 'a', { annotations: { 'loft.sh/paused': 'true' } })],
      },
      ['tenant-tenant-a-a'],
    ],
    [
      'G40: WATCH_NAMESPACES leaves the others out',
      {
        workloads: [workload('tenant-a', 'a'), workload('other', 'o')],
        environment: { WATCH_NAMESPACES: 'other' },
      },
      ['tenant-other-o'],
    ],
    [
      'I08: no platform instances: the label scan',
      { workloads: [workload('x', 'y')] },
      ['tenant-x-y'],
    ],
  ])('%s', (_reason, host, ids) => {
    expect(idsOf(host)).toStrictEqual(ids);
  });
});

describe('an instance of the platform is metered in the wrong namespace, or twice', () => {
  const workloads = [workload('loft-team1-v-x', 'x')];
  const x = { hostNamespace: 'loft-team1-v-x', hostName: 'x', cluster: 'c1', displayName: 'X' };

  test('I06: it enriches the workload that it points to', () => {
    const [cluster, ...others] = clustersOf({
      workloads,
      instances: [instance('p-team1', 'x', x)],
      environment: { PLATFORM_CLUSTER: 'c1' },
    });
    expect(others).toStrictEqual([]);
    expect(cluster).toMatchObject({
      id: 'tenant-loft-team1-v-x-x',
      namespace: 'loft-team1-v-x',
      project: 'team1',
      displayName: 'X',
      instance: 'x',
    });
  });

  test('I07: an instance on another cluster of the platform is left alone', () => {
    const host = {
      instances: [instance('p-team1', 'x', { ...x, cluster: 'c2' })],
      environment: { PLATFORM_CLUSTER: 'c1' },
    };
    expect(clustersOf(host)).toStrictEqual([]);
    expect(clustersOf({ ...host, workloads })[0]).not.toMatchObject({ project: expect.anything() });
  });

  test('I11: whatever its phase, an instance with a host namespace is there', () => {
    const instances = ['Sleeping', 'Failed', 'Pending'].map((phase, index) =>
      instance('p-team1', `i${index}`, { hostNamespace: `host-${index}`, phase }),
    );
    expect(idsOf({ instances })).toStrictEqual([
      'tenant-host-0-i0',
      'tenant-host-1-i1',
      'tenant-host-2-i2',
    ]);
  });

  test('an instance whose host namespace is not here is on another cluster', () => {
    const instances = [instance('p-team1', 'x', x), instance('p-team1', 'standalone')];
    expect(clustersOf({ instances, missing: ['loft-team1-v-x'] })).toStrictEqual([]);
  });

  test('I15: an instance without a host namespace is unmetered, and reported until a file names it', () => {
    const file = (name: string): ListedCluster => {
      return { name, kubeconfig: `/etc/meterfeed/tenants/${name}`, since: 0, metadata: {} };
    };
    const nagged = (host: Host): readonly string[] => discoverHost(host).problems;
    const nag = (instanceName: string, entry: string): string =>
      `platform instance without a namespace on this cluster: ${instanceName}: it is not metered; give it an entry "${entry}" in TENANT_CLUSTERS_FILE`;
    const instances = [
      instance('p-a', 'edge', { created: '2026-02-01T00:00:00Z' }),
      instance('p-b', 'edge', { created: '2026-02-02T00:00:00Z' }),
      instance('p-b', 'attached', { cluster: 'c1' }),
      instance('p-b', 'moved', { ignored: true }),
    ];
    expect(nagged({ instances })).toStrictEqual([
      nag('p-b/attached', 'attached'),
      nag('p-a/edge', 'edge'),
      nag('p-b/edge', 'p-b.edge'),
    ]);
    expect(nagged({ instances, external: ['edge', 'attached'].map(file) })).toStrictEqual([
      nag('p-b/edge', 'p-b.edge'),
    ]);
    const all = ['p-a.edge', 'p-b.edge', 'attached'].map(file);
    expect(nagged({ instances, external: all })).toStrictEqual([]);
    // What the platform keeps on another cluster is that cluster's operator's.
    const environment = { PLATFORM_CLUSTER: 'c2' };
    expect(nagged({ instances, external: all.slice(0, 2), environment })).toStrictEqual([]);
    expect(nagged({ instances, environment })).toHaveLength(2);
  });

  test('I12: of an instance that moves between projects only the clone counts', () => {
    const instances = [
      instance('p-old', 'x', { ...x, ignored: true }),
      instance('p-new', 'x', { ...x, created: '2026-02-02T00:00:00Z' }),
    ];
    for (const order of [instances, instances.toReversed()]) {
      const found = clustersOf({ workloads, instances: order });
      expect(found.map(({ project }) => project)).toStrictEqual(['new']);
    }
  });

  test('two instances that point to one workload are reported, and the one that stays holds', () => {
    const { clusters, problems } = discoverHost({
      workloads,
      instances: [
        instance('p-going', 'x', { ...x, deleted: '2026-02-02T00:00:00Z' }),
        instance('p-young', 'x', { ...x, created: '2026-02-02T00:00:00Z' }),
        instance('p-older', 'x', { ...x, created: '2026-02-01T00:00:00Z' }),
      ],
    });
    expect(clusters.map(({ project }) => project)).toStrictEqual(['older']);
    expect(problems[0]).toBe(
      'platform instances p-older/x and p-young/x both point to loft-team1-v-x/x; the first one is used',
    );
  });

  test('instances of several clusters are a hint that PLATFORM_CLUSTER is missing', () => {
    const instances = [instance('p-a', 'x', x), instance('p-a', 'y', { ...x, cluster: 'c2' })];
    expect(discoverHost({ workloads, instances }).problems[0]).toBe(
      'platform instances of several clusters (c1, c2); set PLATFORM_CLUSTER or spec.discovery.platformCluster of the MeteringPolicy',
    );
  });

  test('a legacy project namespace, and one that has nothing but a label', () => {
    const legacy = [instance('loft-p-team1', 'x', x)];
    expect(clustersOf({ workloads, instances: legacy })[0]?.project).toBe('team1');
    const labelled = [instance('elsewhere', 'x', { ...x, labels: { 'loft.sh/project': 'team2' } })];
    expect(clustersOf({ workloads, instances: labelled })[0]?.project).toBe('team2');
  });
});

describe('usage is billed to the wrong customer', () => {
  const x = workload('host-x', 'x');
  const y = workload('host-y', 'y');
  const instances = [
    instance('p-team1', 'x', { hostNamespace: 'host-x' }),
    instance('p-team1', 'y', { hostNamespace: 'host-y' }),
  ];
  const byProject = { TENANT_SOURCE: 'project' };

  test('I09: TENANT_SOURCE=project makes one customer of a project', () => {
    expect(tenantsOf({ workloads: [x, y], instances, environment: byProject })).toStrictEqual({
      'tenant-host-x-x': 'project-team1',
      'tenant-host-y-y': 'project-team1',
    });
  });

  test('a tenant cluster without a project stays its own customer', () => {
    expect(tenantsOf({ workloads: [x], environment: byProject })).toStrictEqual({
      'tenant-host-x-x': 'tenant-host-x-x',
    });
  });

  test('I10: the tenant label wins over the project', () => {
    const namespaces = [namespaceObject('host-x', { labels: { 'meterfeed.io/tenant': 'acme' } })];
    const host = { workloads: [x, y], instances, namespaces, environment: byProject };
    expect(tenantsOf(host)).toStrictEqual({
      'tenant-host-x-x': 'acme',
      'tenant-host-y-y': 'project-team1',
    });
  });

  test('the platform API goes away and the project’s customer stays, by the Namespace’s labels', () => {
    const labels = { 'loft.sh/vcluster-instance-project': 'team1' };
    const namespaces = [namespaceObject('host-x', { labels })];
    expect(tenantsOf({ workloads: [x], namespaces, environment: byProject })).toStrictEqual({
      'tenant-host-x-x': 'project-team1',
    });
  });

  test('accident 34: a user of a project edits the instance: only its project and display name are trusted', () => {
    const annotations = {
      'meterfeed.io/tenant': 'somebody-else',
      'meterfeed.io/project': 'other',
      'meterfeed.io/exclude': 'true',
      'meterfeed.io/plan': 'free',
    };
    const edited = [
      instance('p-team1', 'x', {
        hostNamespace: 'host-x',
        displayName: 'Mine',
        annotations,
        labels: { 'loft.sh/project': 'other' },
      }),
    ];
    const [cluster] = clustersOf({ workloads: [x], instances: edited, environment: byProject });
    expect(cluster).toMatchObject({
      tenant: 'project-team1',
      project: 'team1',
      displayName: 'Mine',
      excluded: false,
    });
    expect(cluster).not.toMatchObject({ plan: expect.anything() });
    const trusting = { ...byProject, 'spec.discovery.trustPlatformMetadata': 'true' };
    const [trusted] = clustersOf({ workloads: [x], instances: edited, environment: trusting });
    expect(trusted).toMatchObject({ tenant: 'somebody-else', plan: 'free', excluded: true });
  });

  test('the Namespace, which its tenant cannot write, beats the workload', () => {
    const labelled = workload('host-x', 'x', { labels: { 'meterfeed.io/tenant': 'workload' } });
    const trusting = { 'spec.discovery.trustWorkloadMetadata': 'true' };
    expect(tenantsOf({ workloads: [labelled], environment: trusting })).toStrictEqual({
      'tenant-host-x-x': 'workload',
    });
    const labels = { 'meterfeed.io/tenant': 'namespace' };
    const namespaces = [namespaceObject('host-x', { labels })];
    for (const environment of [trusting, {}]) {
      expect(tenantsOf({ workloads: [labelled], namespaces, environment })).toStrictEqual({
        'tenant-host-x-x': 'namespace',
      });
    }
  });

  test('a namespace admin’s annotations on a StatefulSet bill somebody else, nobody, or take another’s alerts', () => {
    const texts = {
      tenant: 'somebody-else',
      exclude: 'true',
      'stripe-customer-id': 'cus_alice',
      'metronome-customer-id': '0b5a1e3c-1c4f-4c46-9a0e-0d6f6f0a8a11',
      project: 'other',
      plan: 'free',
      currency: 'XXX',
      email: 'nobody@example.com',
      'tenant-class': 'internal',
      'cost-center': '0',
      'node-mode': 'private',
      'display-name': 'Mine',
    };
    const annotations = Object.fromEntries(
      Object.entries(texts).map(([key, value]) => [`meterfeed.io/${key}`, value]),
    );
    const edited = workload('host-x', 'x', { annotations });
    const honest = clustersOf({ workloads: [x] });
    const { clusters, problems } = discoverHost({ workloads: [edited] });
    // A name for people changes no bill.
    expect(clusters).toStrictEqual(honest.map((cluster) => ({ ...cluster, displayName: 'Mine' })));
    expect(problems).toHaveLength(Object.keys(texts).length - 1);
    expect(problems).toContain(
      'tenant-host-x-x: workload x: annotation meterfeed.io/exclude: ignored: the admins of a namespace can ' +
        'edit its workloads; set it on Namespace host-x, or set spec.discovery.trustWorkloadMetadata of the MeteringPolicy',
    );
    const environment = { 'spec.discovery.trustWorkloadMetadata': 'true' };
    expect(clustersOf({ workloads: [edited], environment })[0]).toMatchObject({
      tenant: 'somebody-else',
      excluded: true,
      plan: 'free',
    });
  });

  test('a namespace admin’s labels on a StatefulSet choose the TenantOverride', () => {
    const labelled = workload('host-x', 'x', { labels: { team: 'free-of-charge' } });
    const overrides = [
      {
        name: 'free',
        createdAt: 1,
        match: {
          kind: 'labels',
          matchLabels: { team: 'free-of-charge' },
          matchExpressions: [],
        },
        exclude: true,
      },
    ] as const;
    const { clusters, problems } = discoverHost({ workloads: [labelled], overrides });
    expect(clusters[0]).toMatchObject({ excluded: false, overrides: [] });
    expect(problems).toStrictEqual([
      'tenant-host-x-x: TenantOverride free: selector matches by labels of a workload: ignored: the admins of a ' +
        'namespace can edit its workloads; set it on Namespace host-x, or set spec.discovery.trustWorkloadMetadata of the MeteringPolicy',
    ]);
    const namespaces = [namespaceObject('host-x', { labels: { team: 'free-of-charge' } })];
    expect(clustersOf({ workloads: [x], namespaces, overrides })[0]?.excluded).toBe(true);
  });

  test('a Namespace that arrives after its workload makes no wrong customer meanwhile', () => {
    const missing = ['host-x'];
    expect(clustersOf({ workloads: [x], missing })).toStrictEqual([]);
    const labels = { 'meterfeed.io/tenant': 'acme' };
    const before = clustersOf({
      workloads: [x],
      namespaces: [namespaceObject('host-x', { labels })],
    });
    const known = new Map(before.map((cluster) => [cluster.id, cluster]));
    expect(clustersOf({ workloads: [x], missing, known })).toStrictEqual(before);
  });
});

describe('two tenant clusters get one id', () => {
  const older = workload('a-b', 'c', { created: '2026-01-01T00:00:00Z' });
  const younger = workload('a', 'b-c', { created: '2026-01-02T00:00:00Z' });

  test('the later one’s ends in a hash, in whatever order they arrive', () => {
    const first = tenantsOf({ workloads: [older, younger] });
    expect(tenantsOf({ workloads: [younger, older] })).toStrictEqual(first);
    expect(Object.keys(first)).toStrictEqual([
      'tenant-a-b-c',
      expect.stringMatching(/^tenant-a-b-c-[0-9a-f]{8}$/),
    ]);
  });

  test('the assignment outlives the other one', () => {
    const { newIds } = discoverHost({ workloads: [older, younger] });
    const alone = discoverHost({ workloads: [younger], assignedIds: newIds });
    expect(alone.clusters[0]?.id).toMatch(/^tenant-a-b-c-[0-9a-f]{8}$/);
    expect(alone.newIds.size).toBe(0);
    const gone = new Map([['a-b/c', 'tenant-a-b-c']]);
    expect(idsOf({ workloads: [younger], assignedIds: gone })[0]).toMatch(/-[0-9a-f]{8}$/);
  });

  test('an id over 128 characters is cut and hashed', () => {
    const namespace = 'n'.repeat(63);
    const names = [`${'x'.repeat(62)}1`, `${'x'.repeat(62)}2`];
    const ids = idsOf({ workloads: names.map((name) => workload(namespace, name)) });
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) expect(id).toMatch(/^tenant-n{63}-x+-[0-9a-f]{8}$/);
    expect(ids.map((id) => id.length)).toStrictEqual([128, 128]);
  });
});

test('what is known of a tenant cluster does not reach its customer', () => {
  const annotations = {
    'meterfeed.io/display-name': 'Acme',
    'meterfeed.io/email': 'billing@acme.example',
    'meterfeed.io/project': 'rockets',
    'meterfeed.io/tenant-class': 'enterprise',
    'meterfeed.io/plan': 'gold',
    'meterfeed.io/currency': 'eur',
    'meterfeed.io/stripe-customer-id': 'cus_123',
    'meterfeed.io/metronome-customer-id': '0b5a1e3c-1c4f-4c46-9a0e-0d6f6f0a8a11',
    'meterfeed.io/cost-center': '4711',
    'meterfeed.io/exclude': 'false',
  };
  const namespaces = [namespaceObject('tenant-a', { annotations })];
  const [cluster] = clustersOf({ workloads: [workload('tenant-a', 'a')], namespaces });
  expect(cluster).toMatchObject({
    displayName: 'Acme',
    email: 'billing@acme.example',
    project: 'rockets',
    tenantClass: 'enterprise',
    plan: 'gold',
    currency: 'EUR',
    customerIds: {
      stripe: 'cus_123',
      metronome: '0b5a1e3c-1c4f-4c46-9a0e-0d6f6f0a8a11',
    },
    costCenter: '4711',
    excluded: false,
    enforcementExempt: false,
    createdAt: Date.UTC(2026, 0, 1),
    overrides: [],
  });
});

test('a tenant cluster without a class is not given the default', () => {
  const environment = { DEFAULT_TENANT_CLASS: 'public' };
  const [cluster] = clustersOf({ workloads: [workload('tenant-a', 'a')], environment });
  expect(cluster?.tenantClass).toBe('public');
  expect(cluster?.displayName).toBe('Tenant cluster tenant-a-a');
});
