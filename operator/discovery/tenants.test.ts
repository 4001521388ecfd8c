import { describe, expect, test } from 'vitest';
import { discoverHost, settingsFrom } from './testing/host.ts';
import { namespaceObject, workload } from './testing/objects.ts';
import { sharedIdProblems, tenantsOf } from './tenants.ts';

type Texts = Readonly<Record<string, string>>;

/** One tenant cluster `<x>` in a namespace of the same name, for each set of metadata. */
function tenants(clusters: Readonly<Record<string, Texts>>, environment: Texts = {}) {
  const created = (index: number) => `2026-01-0${9 - index}T00:00:00Z`;
  const names = Object.keys(clusters);
  const { clusters: found } = discoverHost({
    workloads: names.map((name, index) => workload(name, name, { created: created(index) })),
    namespaces: Object.entries(clusters).map(([name, texts]) =>
      namespaceObject(name, {
        annotations: Object.fromEntries(
          Object.entries(texts).map(([key, value]) => [`meterfeed.io/${key}`, value]),
        ),
      }),
    ),
    environment,
  });
  return tenantsOf(found, settingsFrom(environment));
}

test('a customer is one record for each of its clusters', () => {
  const found = tenants(
    {
      a: { tenant: 'acme' },
      b: { tenant: 'acme', email: 'b@acme.example', plan: 'gold', 'display-name': 'Acme' },
      c: { tenant: 'acme', email: 'c@acme.example', currency: 'EUR' },
      d: {},
    },
    { REGION: 'eu-1' },
  );
  expect(found).toEqual([
    {
      id: 'acme',
      displayName: 'Acme',
      email: 'b@acme.example',
      plan: 'gold',
      currency: 'EUR',
      region: 'eu-1',
      clusters: ['tenant-a-a', 'tenant-b-b', 'tenant-c-c'],
      createdAt: Date.UTC(2026, 0, 7),
    },
    {
      id: 'tenant-d-d',
      displayName: 'Tenant cluster d-d',
      region: 'eu-1',
      clusters: ['tenant-d-d'],
      createdAt: Date.UTC(2026, 0, 6),
    },
  ]);
});

test('clusters that are not metered make a customer', () => {
  const found = tenants({
    a: { exclude: 'true' },
    b: { tenant: 'x' },
    c: { tenant: 'x', exclude: 'true' },
  });
  expect(found.map(({ id, clusters }) => [id, clusters])).toStrictEqual([['x', ['tenant-b-b']]]);
});

describe('a default hides what was given', () => {
  test('the default class gives way to a class of another cluster', () => {
    const clusters = { a: { tenant: 'x' }, b: { tenant: 'x', 'tenant-class': 'dev' } };
    const environment = { DEFAULT_TENANT_CLASS: 'public' };
    expect(tenants(clusters, environment)[0]?.tenantClass).toBe('dev');
    expect(tenants({ a: {} }, environment)[0]?.tenantClass).toBe('public');
  });

  test('a customer of several unnamed clusters is not called after one of them', () => {
    expect(tenants({ a: { tenant: 'x' }, b: { tenant: 'x' } })[0]?.displayName).toBe('x');
    expect(tenants({ a: { tenant: 'x' } })[0]?.displayName).toBe('x');
  });
});

describe('one customer id on two tenants', () => {
  const uuid = '0b5a1e3c-1c4f-4c46-9a0e-0d6f6f0a8a11';
  const alice = {
    tenant: 'alice',
    'stripe-customer-id': 'cus_alice',
    'metronome-customer-id': uuid,
  };

  test('is refused for both, with the reason, and leaves the others alone', () => {
    const thief = { tenant: 'thief', 'stripe-customer-id': 'cus_alice' };
    const bob = { tenant: 'bob', 'stripe-customer-id': 'cus_bob' };
    const found = tenants({ a: alice, b: thief, c: bob });
    expect(
      found.map(({ id, customerIds, sharedCustomerIds }) => ({
        id,
        customerIds,
        sharedCustomerIds,
      })),
    ).toStrictEqual([
      {
        id: 'alice',
        customerIds: { metronome: uuid },
        sharedCustomerIds: { stripe: 'cus_alice' },
      },
      { id: 'bob', customerIds: { stripe: 'cus_bob' }, sharedCustomerIds: undefined },
      { id: 'thief', customerIds: undefined, sharedCustomerIds: { stripe: 'cus_alice' } },
    ]);
    expect(sharedIdProblems(found)).toStrictEqual([
      'stripe customer id of several tenants, refused for all: "alice", "thief": "cus_alice"; name it for one tenant ' +
        'only; tenant clusters that one customer pays for need the same key tenant',
    ]);
  });

  test('is none where both tenant clusters are one tenant’s', () => {
    const found = tenants({ a: alice, b: alice });
    expect(found).toMatchObject([{ customerIds: { stripe: 'cus_alice', metronome: uuid } }]);
    expect(sharedIdProblems(found)).toStrictEqual([]);
  });
});

test('a tenant has the subscription that its namespace names, and the details of its override', () => {
  const key = (name: string) => `meterfeed.io/${name}`;
  const labels = {
    [key('lago-customer-id')]: 'acme-ltd',
    [key('lago-subscription-id')]: 'contract-7',
  };
  const { clusters } = discoverHost({
    workloads: [workload('acme', 'a')],
    namespaces: [namespaceObject('acme', { labels })],
    overrides: [
      {
        name: 'o',
        createdAt: 1,
        match: { kind: 'cluster', namespace: 'acme', name: 'a' },
        billing: { netTermsDays: 30 },
      },
    ],
  });
  expect(tenantsOf(clusters, settingsFrom({}))).toMatchObject([
    {
      customerIds: { lago: 'acme-ltd' },
      subscriptionIds: { lago: 'contract-7' },
      billing: { netTermsDays: 30 },
    },
  ]);
});
