import { afterEach, describe, expect, test } from 'vitest';
import type { FakeLagoOptions } from '../../../e2e/fakes/lago/lago.ts';
import { TEST_WINDOW_START, testEvent, testWindow } from '../../ledger/testing/events.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { DeliveryOutcome } from '../destination.ts';
import { testTenant } from '../testing/context.ts';
import { createLagoWorld, type LagoWorld, NEVER } from './testing/lago-world.ts';

const worlds: LagoWorld[] = [];
const BATCH = '/api/v1/events/batch';

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

async function ready(
  options: Partial<FakeLagoOptions> = {},
  tenants = [testTenant()],
): Promise<LagoWorld> {
  const world = await createLagoWorld(options);
  worlds.push(world);
  await world.ready(...tenants);
  return world;
}

/** Returns events of one tenant, a minute apart. */
function events(count: number, change: Partial<UsageEvent> = {}): UsageEvent[] {
  return Array.from({ length: count }, (_, index) => ({
    ...testEvent({ id: `e${index}`, windowStart: TEST_WINDOW_START + index * 60_000 }),
    ...change,
  }));
}

function kinds(outcomes: readonly DeliveryOutcome[]): string[] {
  return outcomes.map(({ kind }) => kind);
}

function stored(world: LagoWorld): string[] {
  return [...world.lago.state.events.values()].map(({ transaction_id }) => transaction_id);
}

test('an event carries every dimension as text, and its quantity as plain decimal text', async () => {
  const world = await ready();
  const event: UsageEvent = {
    ...testEvent({ quantity: '0.000000001', sku: 'NVIDIA-H100' }),
    metric: 'tenant_gpu_hours',
    project: 'research',
    resource_id: 'node-1',
    dimensions: {
      tenant_cluster: 'tenant-vcluster-a-a',
      capacity_type: 'spot',
      billing_mode: 'shared',
      tenant_class: 'public',
    },
    properties: { gpu_devices: 8, backfilled: true },
  };
  expect(kinds(await world.destination.send([event], NEVER))).toStrictEqual(['delivered']);
  expect(world.requests('POST', BATCH)[0]?.body).toStrictEqual({
    events: [
      {
        transaction_id: event.id,
        external_subscription_id: 'sub-tenant-vcluster-a-a',
        code: 'tenant_gpu_hours',
        timestamp: TEST_WINDOW_START / 1000,
        properties: {
          gpu_devices: '8',
          backfilled: 'true',
          tenant_cluster: 'tenant-vcluster-a-a',
          capacity_type: 'spot',
          billing_mode: 'shared',
          tenant_class: 'public',
          region: 'eu-central-1',
          project: 'research',
          sku: 'NVIDIA-H100',
          resource_id: 'node-1',
          gpu_hours: '0.000000001',
        },
      },
    ],
  });
});

test('a dimension or property named like the quantity does not take its place', async () => {
  const world = await ready();
  const [event] = events(1, {
    metric: 'tenant_gpu_hours',
    dimensions: { gpu_hours: '0' },
    properties: { gpu_hours: 0 },
  });
  await world.destination.send([event ?? testEvent()], NEVER);
  const [only] = world.lago.state.events.values();
  expect(only?.properties['gpu_hours']).toBe('0.016666667');
});

describe('one refused event', () => {
  test('among a hundred does not stop the others, and is named', async () => {
    const world = await ready();
    const batch = events(100);
    batch[7] = { ...testEvent({ id: ' ' }) };
    const outcomes = await world.destination.send(batch, NEVER);
    expect(outcomes[7]).toStrictEqual({
      kind: 'rejected',
      reason: 'lago-style API error 422: {"transaction_id":["value_is_mandatory"]}',
    });
    expect(kinds(outcomes).filter((kind) => kind === 'delivered')).toHaveLength(99);
    expect(stored(world)).toHaveLength(99);
  });

  test('that is a duplicate counts as delivered, and the rest is sent in one more call', async () => {
    const world = await ready();
    await world.destination.send(events(3), NEVER);
    const before = world.requests('POST', BATCH).length;
    const outcomes = await world.destination.send(events(50), NEVER);
    expect(new Set(kinds(outcomes))).toStrictEqual(new Set(['delivered']));
    expect(world.requests('POST', BATCH)).toHaveLength(before + 2);
    expect(stored(world)).toHaveLength(50);
  });

  test('and a duplicate in one batch are distinguished in three passes', async () => {
    const world = await ready();
    await world.destination.send(events(2), NEVER);
    const batch = [...events(5), testEvent({ id: ' ' })];
    expect(kinds(await world.destination.send(batch, NEVER))).toStrictEqual([
      ...Array.from({ length: 5 }, () => 'delivered'),
      'rejected',
    ]);
    expect(stored(world)).toHaveLength(5);
  });

  test('whose fault is reported as text is rejected with that text', async () => {
    const world = await ready();
    const body = {
      status: 422,
      code: 'validation_errors',
      error_details: { '1': 'expression_evaluation_failed: x' },
    };
    world.lago.misbehaviours.add({ kind: 'status', status: 422, body, path: BATCH, times: 1 });
    expect(await world.destination.send(events(2), NEVER)).toStrictEqual([
      { kind: 'delivered' },
      { kind: 'rejected', reason: 'lago-style API error 422: expression_evaluation_failed: x' },
    ]);
  });
});

test('a batch that was taken without an answer is billed once, and not sent event by event', async () => {
  const world = await ready();
  world.lago.misbehaviours.add({ kind: 'commit-then-reset', path: BATCH, times: 1 });
  expect(kinds(await world.destination.send(events(100), NEVER))).toContain('retry');
  const before = world.requests('POST', BATCH).length;
  const again = await world.destination.send(events(100), NEVER);
  expect(new Set(kinds(again))).toStrictEqual(new Set(['delivered']));
  expect(stored(world)).toStrictEqual(events(100).map(({ id }) => id));
  expect(world.requests('POST', BATCH)).toHaveLength(before + 1);
});

test('under clickhouse a retry has the same timestamp, so nothing counts twice', async () => {
  const world = await ready({ store: 'clickhouse' });
  await world.destination.send(events(4), NEVER);
  await world.destination.send(events(4), NEVER);
  expect(stored(world)).toHaveLength(4);
});

test('a server that takes fewer events in a call is given fewer', async () => {
  const world = await ready({ batchMax: 30 });
  const outcomes = await world.destination.send(events(100), NEVER);
  expect(new Set(kinds(outcomes))).toStrictEqual(new Set(['delivered']));
  expect(stored(world)).toHaveLength(100);
  const calls = world.requests('POST', BATCH).length;
  await world.destination.send(
    events(25).map((event) => ({ ...event, id: `x${event.id}` })),
    NEVER,
  );
  expect(world.requests('POST', BATCH)).toHaveLength(calls + 1);
});

test('no call has more than a hundred events, and the events of a tenant keep their order', async () => {
  const tenants = Array.from({ length: 7 }, (_, index) => `tenant-vcluster-${index}-main`);
  const world = await ready(
    {},
    tenants.map((id) => testTenant({ id })),
  );
  const batch = Array.from({ length: 57 }, (_, window) =>
    testWindow(TEST_WINDOW_START + window * 60_000, 7),
  ).flat();
  await world.destination.send(batch, NEVER);
  const calls = world.requests('POST', BATCH).map(({ body }) => body as { events: unknown[] });
  expect(Math.max(...calls.map((call) => call.events.length))).toBeLessThanOrEqual(100);
  expect(stored(world)).toHaveLength(399);
  for (const tenant of tenants) {
    const times = [...world.lago.state.events.values()]
      .filter(({ external_subscription_id }) => external_subscription_id === `sub-${tenant}`)
      .map(({ at }) => at);
    expect(times).toStrictEqual(times.toSorted((a, b) => a - b));
  }
});

describe('an event that Lago would take and never bill', () => {
  test('for lack of a subscription provisions one', async () => {
    const world = await ready();
    const outcomes = await world.destination.send([testEvent({ tenant: 'stranger' })], NEVER);
    expect(outcomes).toStrictEqual([{ kind: 'provision', reason: 'no active subscription' }]);
    expect(stored(world)).toHaveLength(0);
  });

  test('since it is before the subscription is rejected in sight', async () => {
    const world = await ready({}, [testTenant({ billableFrom: TEST_WINDOW_START })]);
    const early = testEvent({ windowStart: TEST_WINDOW_START - 60_000 });
    const [outcome] = await world.destination.send([early], NEVER);
    expect(outcome).toMatchObject({ kind: 'rejected' });
    expect(JSON.stringify(outcome)).toContain('before the subscription began, 2026-11-21T09:00');
    expect(stored(world)).toHaveLength(0);
  });

  test('since nobody has its metric is rejected in sight', async () => {
    const world = await ready();
    const outcomes = await world.destination.send(events(1, { metric: 'unknown' }), NEVER);
    expect(outcomes).toStrictEqual([
      { kind: 'rejected', reason: 'Lago has no billable metric of this code: metric: "unknown"' },
    ]);
  });
});

test('a metric that an operator gave another field is summed by that field', async () => {
  const world = await createLagoWorld();
  worlds.push(world);
  world.lago.state.metrics.set('tenant_instance_hours', {
    lago_id: 'own',
    name: 'Own',
    code: 'tenant_instance_hours',
    description: null,
    aggregation_type: 'sum_agg',
    field_name: 'my_hours',
    recurring: false,
    created_at: '2026-01-01T00:00:00Z',
    filters: [],
  });
  await world.ready();
  await world.destination.send(events(1), NEVER);
  const [event] = world.lago.state.events.values();
  expect(event?.properties['my_hours']).toBe('0.016666667');
});

describe('an answer for the complete call', () => {
  test.each([
    [401, undefined, 'blocked'],
    [403, undefined, 'blocked'],
    [404, undefined, 'blocked'],
    [429, undefined, 'retry'],
    [500, undefined, 'retry'],
    [400, { error: 'BadRequest: x' }, 'split'],
    [413, { error: 'x' }, 'split'],
    [422, { error: 'x', code: 'odd' }, 'split'],
    [200, '<html>', 'blocked'],
    [200, { ok: true }, 'blocked'],
  ])('%i %j means %s', async (status, body, kind) => {
    const world = await ready();
    world.lago.misbehaviours.add({ kind: 'status', status, body, path: BATCH });
    expect(kinds(await world.destination.send(events(2), NEVER))).toStrictEqual([kind, kind]);
  });

  test('of a connection refused is reported in the words of the specification', async () => {
    const world = await ready();
    await world.destination.send(events(1), NEVER);
    await world.lago.close();
    // The first call afterwards uses a closed connection.
    await world.destination.send(events(1), NEVER);
    expect(await world.destination.send(events(1), NEVER)).toStrictEqual([
      { kind: 'retry', reason: 'HTTP POST /api/v1/events/batch: connection refused' },
    ]);
  });
});

describe('a new SKU', () => {
  const gpu = (sku: string): UsageEvent => ({
    ...testEvent({ id: `gpu-${sku}`, sku }),
    metric: 'tenant_gpu_hours',
  });
  const skus = (world: LagoWorld) =>
    world.lago.state.metrics.get('tenant_gpu_hours')?.filters.find(({ key }) => key === 'sku')
      ?.values;

  test('can be priced at once, and prices that were set stay', async () => {
    const world = await ready();
    await world.destination.send([gpu('h100'), gpu('a100')], NEVER);
    expect(skus(world)).toStrictEqual(['h100', 'a100']);
    const charge = world.lago.state.plans
      .get('tenant-standard')
      ?.charges.find(({ code }) => code === 'tenant_gpu_hours');
    if (charge === undefined) throw new Error('no charge');
    charge.filters = [{ values: { sku: ['h100'] }, properties: { amount: '10' } }];
    await world.destination.send([gpu('l40')], NEVER);
    expect(skus(world)).toStrictEqual(['h100', 'a100', 'l40']);
    expect(charge.filters).toHaveLength(1);
  });

  test('does not remove values that an operator added meanwhile', async () => {
    const world = await ready();
    await world.destination.send([gpu('h100')], NEVER);
    const metric = world.lago.state.metrics.get('tenant_gpu_hours');
    if (metric === undefined) throw new Error('no metric');
    metric.filters = [
      ...metric.filters.map(({ key, values }) => ({ key, values: [...values, 'by-hand'] })),
      { key: 'own', values: ['x'] },
    ];
    await world.destination.send([gpu('b200')], NEVER);
    expect(skus(world)).toStrictEqual(['h100', 'by-hand', 'b200']);
    expect(metric.filters.map(({ key }) => key)).toContain('own');
  });

  test('changes nothing when it is known, also after a restart', async () => {
    const world = await ready();
    await world.destination.send([gpu('h100')], NEVER);
    const changes = world.requests('PUT', '/').length;
    const later = world.restart();
    await later.bootstrap([], NEVER);
    await later.send([gpu('h100')], NEVER);
    expect(world.requests('PUT', '/')).toHaveLength(changes);
  });

  test('that cannot be added delays no event', async () => {
    const world = await ready();
    world.lago.misbehaviours.add({ kind: 'status', status: 500, method: 'PUT' });
    expect(kinds(await world.destination.send([gpu('h100')], NEVER))).toStrictEqual(['delivered']);
    expect(world.context.logger.lines.at(-1)).toBe(
      'warn [bootstrap] warning: filter values of metric "tenant_gpu_hours": lago-style API error 500',
    );
  });
});

test('the sum of what Lago has is reported exactly, over several pages', async () => {
  const world = await ready();
  const batch = events(150, { metric: 'tenant_lb_hours' });
  await world.destination.send(batch, NEVER);
  const query = { tenant: testTenant(), metric: 'tenant_lb_hours' };
  const day = Date.UTC(2026, 10, 21);
  const total = (from: number, to: number) =>
    world.destination.sums.total({ ...query, from, to }, NEVER);
  expect(await total(day, day + 86_400_000)).toStrictEqual({
    kind: 'total',
    quantity: '2.50000005',
  });
  expect(await total(day - 86_400_000, day)).toStrictEqual({ kind: 'total', quantity: '0' });
});

test('subscriptions of other plans in the same Lago are not read through', async () => {
  const world = await ready();
  await world.destination.send(events(1), NEVER);
  const lists = world.lago.requests.filter(
    ({ method, path, query }) =>
      method === 'GET' && path === '/api/v1/subscriptions' && !query.has('external_customer_id'),
  );
  expect(lists.map(({ query }) => query.get('plan_code'))).toStrictEqual(['tenant-standard']);
});

test('a rate limit that Lago names is known, in events a second', async () => {
  const world = await ready();
  expect(world.destination.limits.eventsPerSecond).toBeUndefined();
  world.lago.misbehaviours.add({
    kind: 'status',
    status: 429,
    path: '/api/v1/events/batch',
    headers: { 'x-ratelimit-limit': '50', 'x-ratelimit-reset': '1' },
    times: 1,
  });
  await world.destination.send(events(1), NEVER);
  expect(world.destination.limits.eventsPerSecond).toBe(5_000);
});
