import { afterEach, describe, expect, test } from 'vitest';
import type { FakeLagoOptions } from '../../../e2e/fakes/lago/lago.ts';
import type { LagoSettings } from './settings.ts';
import { testTenant } from '../testing/context.ts';
import {
  createLagoWorld,
  LAGO_METRICS,
  LAGO_NOW,
  type LagoWorld,
  NEVER,
} from './testing/lago-world.ts';

const worlds: LagoWorld[] = [];
const PROBE = '/api/v1/customers/';

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

async function ready(
  options: Partial<FakeLagoOptions> = {},
  settings: Partial<LagoSettings> = {},
): Promise<LagoWorld> {
  const world = await createLagoWorld(options, settings);
  worlds.push(world);
  await world.bootstrap();
  return world;
}

test('a tenant gets a customer and a subscription that begins early enough', async () => {
  const { lago, destination, context } = await ready();
  const billableFrom = Date.UTC(2026, 10, 21, 3, 0, 0);
  const tenant = testTenant({
    billableFrom,
    email: 'a@example.com',
    project: 'research',
    tenantClass: 'public',
  });
  expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual({ kind: 'done' });
  expect(lago.state.customers.get('tenant-vcluster-a-a')).toMatchObject({
    name: 'Team A',
    email: 'a@example.com',
    currency: 'USD',
    metadata: [
      { key: 'project', value: 'research' },
      { key: 'tenant_class', value: 'public' },
      { key: 'region', value: 'eu-central-1' },
    ],
  });
  expect(lago.state.subscriptions).toMatchObject([
    {
      external_id: 'sub-tenant-vcluster-a-a',
      external_customer_id: 'tenant-vcluster-a-a',
      plan_code: 'tenant-standard',
      status: 'active',
      started_at: '2026-11-21T03:00:00.000Z',
    },
  ]);
  expect(context.logger.lines).toContain(
    'info [lago] subscribed tenant tenant-vcluster-a-a to plan tenant-standard',
  );
});

test('a restart finds the subscription by the current usage and reuses it', async () => {
  const world = await ready();
  await world.destination.customers.provision(testTenant(), NEVER);
  const later = world.restart();
  await later.bootstrap(LAGO_METRICS, NEVER);
  expect(await later.customers.provision(testTenant(), NEVER)).toStrictEqual({ kind: 'done' });
  expect(world.lago.state.subscriptions).toHaveLength(1);
  expect(world.requests('POST', '/api/v1/subscriptions')).toHaveLength(1);
  expect(world.lago.requests.filter(({ path }) => path.endsWith('/current_usage'))).toHaveLength(2);
  expect(world.context.logger.lines).toContain(
    'info [lago] subscription sub-tenant-vcluster-a-a already exists, reused',
  );
});

describe('a probe that fails creates nothing', () => {
  test.each([
    [401, undefined, 'blocked'],
    [403, undefined, 'blocked'],
    [500, undefined, 'retry'],
    [503, undefined, 'retry'],
    [404, { code: 'resource_not_found', error: 'Not Found' }, 'blocked'],
    [422, { code: 'validation_errors', error: 'x' }, 'rejected'],
  ])('with %i', async (status, body, kind) => {
    const world = await ready();
    world.lago.misbehaviours.add({ kind: 'status', status, body, path: PROBE });
    expect((await world.destination.customers.provision(testTenant(), NEVER)).kind).toBe(kind);
    expect(world.lago.state.customers.size).toBe(0);
    expect(world.lago.state.subscriptions).toHaveLength(0);
  });

  test('by a time-out', async () => {
    const world = await ready();
    world.lago.misbehaviours.add({ kind: 'reset', path: PROBE });
    expect((await world.destination.customers.provision(testTenant(), NEVER)).kind).toBe('retry');
    expect(world.lago.state.subscriptions).toHaveLength(0);
  });

  test('for the tax provider means that the subscription is there', async () => {
    const world = await ready();
    await world.destination.customers.provision(testTenant(), NEVER);
    const body = { code: 'tax_error', error: 'x' };
    world.lago.misbehaviours.add({ kind: 'status', status: 422, body, path: PROBE });
    expect(await world.restart().customers.provision(testTenant(), NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(world.requests('POST', '/api/v1/subscriptions')).toHaveLength(1);
  });
});

test('a subscription whose creation was not confirmed is not created twice', async () => {
  const world = await ready();
  const path = '/api/v1/subscriptions';
  world.lago.misbehaviours.add({ kind: 'commit-then-reset', method: 'POST', path, times: 1 });
  expect((await world.destination.customers.provision(testTenant(), NEVER)).kind).toBe('retry');
  expect(await world.destination.customers.provision(testTenant(), NEVER)).toStrictEqual({
    kind: 'done',
  });
  expect(world.lago.state.subscriptions).toHaveLength(1);
});

describe('currency and metadata', () => {
  test('are given at creation only: then they belong to the people who run Lago', async () => {
    const world = await ready();
    await world.destination.customers.provision(testTenant(), NEVER);
    const customer = world.lago.state.customers.get('tenant-vcluster-a-a');
    if (customer === undefined) throw new Error('no customer');
    customer.metadata = [{ key: 'contract', value: '7' }];
    const renamed = testTenant({ displayName: 'Renamed' });
    expect(await world.destination.customers.provision(renamed, NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(customer).toMatchObject({ name: 'Renamed', metadata: [{ key: 'contract' }] });
  });

  test('that Lago refuses do not cost the tenant its customer', async () => {
    const world = await ready();
    const body = { code: 'validation_errors', error_details: { metadata: ['invalid_count'] } };
    const path = '/api/v1/customers';
    world.lago.misbehaviours.add({
      kind: 'status',
      status: 422,
      body,
      method: 'POST',
      path,
      times: 1,
    });
    expect(await world.destination.customers.provision(testTenant(), NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(world.lago.state.customers.get('tenant-vcluster-a-a')).toMatchObject({
      currency: 'USD',
      metadata: [],
    });
  });
});

describe('a plan of its own', () => {
  async function withGold(): Promise<LagoWorld> {
    const world = await ready();
    await world.restart({ planCode: 'gold' }).bootstrap(LAGO_METRICS, NEVER);
    await world.restart({ planCode: 'euro', currency: 'EUR' }).bootstrap(LAGO_METRICS, NEVER);
    return world;
  }

  test('is the plan of the subscription, and a change of it is followed', async () => {
    const { lago, destination } = await withGold();
    await destination.customers.provision(testTenant(), NEVER);
    const gold = testTenant({ plan: 'gold' });
    expect(await destination.customers.provision(gold, NEVER)).toMatchObject({ kind: 'drain' });
    expect(await destination.plans.change(gold, LAGO_NOW, NEVER)).toEqual({
      kind: 'changed',
      from: LAGO_NOW + 1_000,
    });
    expect(lago.state.subscriptions).toMatchObject([
      { plan_code: 'tenant-standard', status: 'terminated' },
      { plan_code: 'gold', status: 'active' },
    ]);
  });

  test('that an operator set in Lago stays when the tenant names none', async () => {
    const { lago, destination } = await withGold();
    await destination.customers.provision(testTenant(), NEVER);
    const [subscription] = lago.state.subscriptions;
    if (subscription === undefined) throw new Error('no subscription');
    subscription.plan_code = 'gold';
    await destination.customers.provision(testTenant({ displayName: 'Other' }), NEVER);
    expect(subscription.plan_code).toBe('gold');
  });

  test('that does not exist costs only this tenant', async () => {
    const { destination } = await withGold();
    expect(
      await destination.customers.provision(testTenant({ plan: 'platinum' }), NEVER),
    ).toStrictEqual({
      kind: 'rejected',
      reason: 'no such plan in Lago: plan: "platinum"',
    });
  });

  test('in another currency costs only this tenant', async () => {
    const { destination, lago } = await withGold();
    expect(
      await destination.customers.provision(testTenant({ plan: 'euro' }), NEVER),
    ).toStrictEqual({
      kind: 'rejected',
      reason: 'plan "euro" is priced in EUR: currency: "USD"',
    });
    expect(lago.state.customers.size).toBe(0);
    const tenant = testTenant({ plan: 'euro', currency: 'EUR' });
    expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual({ kind: 'done' });
  });
});

test.each(['name.with.dots', 'with space', 'with/slash', 'ünï', 'a'.repeat(128)])(
  'a tenant called %j is found again',
  async (id) => {
    const world = await ready();
    const tenant = testTenant({ id });
    expect(await world.destination.customers.provision(tenant, NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(await world.restart().customers.provision(tenant, NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(world.lago.state.subscriptions).toHaveLength(1);
    expect(await world.destination.customers.offboard(tenant, NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(world.lago.state.subscriptions[0]?.status).toBe('terminated');
  },
);

describe('offboarding', () => {
  test('ends the subscription, and a second time is no error', async () => {
    const { lago, destination } = await ready();
    await destination.customers.provision(testTenant(), NEVER);
    expect(await destination.customers.offboard(testTenant(), NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(lago.state.subscriptions).toMatchObject([{ status: 'terminated' }]);
    expect(lago.state.customers.size).toBe(1);
    expect(await destination.customers.offboard(testTenant(), NEVER)).toStrictEqual({
      kind: 'done',
    });
  });

  test('is not undone, but a tenant that comes back gets a new subscription', async () => {
    const { lago, destination } = await ready();
    await destination.customers.provision(testTenant(), NEVER);
    await destination.customers.offboard(testTenant(), NEVER);
    expect(await destination.customers.provision(testTenant(), NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(lago.state.subscriptions.map(({ status }) => status)).toStrictEqual([
      'terminated',
      'active',
    ]);
  });

  test('waits for a Lago that does not answer', async () => {
    const { lago, destination } = await ready();
    await destination.customers.provision(testTenant(), NEVER);
    lago.misbehaviours.add({ kind: 'status', status: 500 });
    expect((await destination.customers.offboard(testTenant(), NEVER)).kind).toBe('retry');
  });
});
