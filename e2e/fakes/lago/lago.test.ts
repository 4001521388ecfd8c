import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'lago-javascript-client';
import { afterEach, describe, expect, test } from 'vitest';
import { openRequestJournal } from '../journal.ts';
import { type FakeLago, type FakeLagoOptions, startFakeLago } from './lago.ts';

const NOW = Date.UTC(2026, 10, 21, 9, 0, 0);
const SECONDS = NOW / 1000;
const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function start(options: Partial<FakeLagoOptions> = {}): Promise<FakeLago> {
  const lago = await startFakeLago({ apiKey: 'key', now: () => NOW, ...options });
  closers.push(() => lago.close());
  return lago;
}

/** Lago's own SDK, pointed at the stand-in. */
function sdk(lago: FakeLago, key = 'key') {
  return Client(key, {
    baseUrl: `${lago.url}/api/v1`,
    rateLimitRetry: { retryOnRateLimit: false },
  });
}

/** Returns the error of the SDK, which throws the response of a refusal. */
async function refusal(call: Promise<unknown>): Promise<{ status: number; body: unknown }> {
  const thrown = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(thrown instanceof Response)) throw new Error('was not refused');
  const { error } = thrown as Response & { error: unknown };
  return { status: thrown.status, body: error };
}

const metric = {
  name: 'GPU hours',
  code: 'gpu_hours',
  aggregation_type: 'sum_agg' as const,
  field_name: 'gpu_hours',
  recurring: false,
};

async function withSubscription(lago: FakeLago, subscriptionAt = '2026-11-01T00:00:00Z') {
  const client = sdk(lago);
  const created = await client.billableMetrics.createBillableMetric({ billable_metric: metric });
  const id = created.data.billable_metric.lago_id;
  await client.plans.createPlan({
    plan: {
      name: 'Standard',
      code: 'standard',
      interval: 'monthly',
      amount_cents: 0,
      amount_currency: 'USD',
      pay_in_advance: false,
      charges: [
        { billable_metric_id: id, charge_model: 'standard', properties: { amount: '2.5' } },
      ],
    },
  });
  await client.customers.createCustomer({ customer: { external_id: 'acme', name: 'Acme' } });
  await client.subscriptions.createSubscription({
    subscription: {
      external_customer_id: 'acme',
      plan_code: 'standard',
      external_id: 'sub-acme',
      subscription_at: subscriptionAt,
    },
  });
  return client;
}

function event(id: string, change: Record<string, unknown> = {}) {
  return {
    transaction_id: id,
    external_subscription_id: 'sub-acme',
    code: 'gpu_hours',
    timestamp: SECONDS,
    properties: { gpu_hours: '0.5' },
    ...change,
  };
}

async function usageOf(lago: FakeLago) {
  const { data } = await sdk(lago).customers.findCustomerCurrentUsage('acme', {
    external_subscription_id: 'sub-acme',
  });
  const [charge] = data.customer_usage.charges_usage;
  return { units: charge?.units, cents: charge?.amount_cents };
}

test('Lago speaks to its own SDK: from metric to invoice', async () => {
  const lago = await start();
  const client = await withSubscription(lago);
  const sent = await client.events.createBatchEvents({ events: [event('1'), event('2')] });
  expect(sent.status).toBe(200);
  expect(sent.data.events.map(({ transaction_id }) => transaction_id)).toStrictEqual(['1', '2']);
  expect(await usageOf(lago)).toStrictEqual({ units: '1', cents: 250 });
  const listed = await client.billableMetrics.findAllBillableMetrics();
  expect(listed.data.meta).toMatchObject({ current_page: 1, next_page: null, total_count: 1 });
  const invoices: unknown = await (await fetch(`${lago.url}/_fake/invoices`)).json();
  expect(invoices).toMatchObject([
    { customer: 'acme', status: 'running', amountCents: 250, lines: [{ units: '1' }] },
  ]);
  expect(await (await fetch(lago.url)).text()).toMatch(/>Acme<\/a><td>acme<td>so far, since/);
});

test('a wrong key is refused everywhere', async () => {
  const lago = await start();
  expect(await refusal(sdk(lago, 'other').billableMetrics.findAllBillableMetrics())).toMatchObject({
    status: 401,
    body: { error: 'Unauthorized' },
  });
});

describe('a batch', () => {
  test('with one duplicate is refused as one, with the index of the duplicate', async () => {
    const lago = await start();
    const client = await withSubscription(lago);
    await client.events.createBatchEvents({ events: [event('1')] });
    const batch = { events: [event('2'), event('1'), event('3')] };
    expect(await refusal(client.events.createBatchEvents(batch))).toMatchObject({
      status: 422,
      body: { error_details: { '1': { transaction_id: ['value_already_exist'] } } },
    });
    expect(lago.state.events.size).toBe(1);
  });

  test('is checked for its format first, and for duplicates only then', async () => {
    const lago = await start();
    const client = await withSubscription(lago);
    await client.events.createBatchEvents({ events: [event('1')] });
    const batch = {
      events: [event('1'), event('2', { code: '' }), event('3', { timestamp: 'x' })],
    };
    expect((await refusal(client.events.createBatchEvents(batch))).body).toMatchObject({
      error_details: {
        '1': { code: ['value_is_mandatory'] },
        '2': { timestamp: ['invalid_format'] },
      },
    });
  });

  test('flags a transaction that is twice in it, though for two subscriptions', async () => {
    const client = await withSubscription(await start());
    const batch = { events: [event('1'), event('1', { external_subscription_id: 'other' })] };
    expect((await refusal(client.events.createBatchEvents(batch))).body).toMatchObject({
      error_details: { '1': { transaction_id: ['value_already_exist'] } },
    });
  });

  test.each([
    [0, 'no_events'],
    [101, 'too_many_events'],
  ])('of %i events is refused as %s', async (count, code) => {
    const client = await withSubscription(await start());
    const events = Array.from({ length: count }, (_, index) => event(String(index)));
    expect((await refusal(client.events.createBatchEvents({ events }))).body).toMatchObject({
      error_details: { events: [code] },
    });
  });

  test('under clickhouse is never refused; the same timestamp wins, another counts twice', async () => {
    const lago = await start({ store: 'clickhouse' });
    const client = await withSubscription(lago);
    await client.events.createBatchEvents({ events: [event('1'), event('1')] });
    expect(await usageOf(lago)).toMatchObject({ units: '0.5' });
    await client.events.createBatchEvents({ events: [event('1', { timestamp: SECONDS + 1 })] });
    expect(await usageOf(lago)).toMatchObject({ units: '1' });
  });
});

describe('a server that is busy', () => {
  test('stores what it has answered later, and has it on no invoice before', async () => {
    const lago = await start({ store: 'clickhouse', rules: { ingestMs: 20_000 } });
    const client = await withSubscription(lago);
    await client.events.createBatchEvents({ events: [event('1')] });
    const listed = async () => (await client.events.findAllEvents()).data.events.length;
    expect(await listed()).toBe(0);
    expect((await refusal(client.events.findEvent('1'))).status).toBe(404);
    lago.turnTo(NOW + 19_999);
    expect(await listed()).toBe(0);
    lago.turnTo(NOW + 20_000);
    expect(await listed()).toBe(1);
  });

  test('shows usage as it was a while ago', async () => {
    const lago = await start({ rules: { usageCacheMs: 60_000 } });
    const client = await withSubscription(lago);
    await client.events.createBatchEvents({ events: [event('1')] });
    expect(await usageOf(lago)).toMatchObject({ units: '0' });
    lago.turnTo(NOW + 60_000);
    expect(await usageOf(lago)).toMatchObject({ units: '0.5' });
  });

  test('refuses more calls than its limit in a second, and says with each what is left', async () => {
    const lago = await start({ rules: { callsPerSecond: 2 } });
    const call = async () => {
      const headers = { authorization: 'Bearer key' };
      const { status, headers: stated } = await fetch(`${lago.url}/api/v1/plans`, { headers });
      return [status, stated.get('x-ratelimit-limit'), stated.get('x-ratelimit-remaining')];
    };
    expect([await call(), await call(), await call()]).toStrictEqual([
      [200, '2', '1'],
      [200, '2', '0'],
      [429, '2', '0'],
    ]);
    lago.turnTo(NOW + 1_000);
    expect(await call()).toStrictEqual([200, '2', '1']);
  });
});

describe('usage', () => {
  test('before the start of the subscription is never billed', async () => {
    const lago = await start();
    const client = await withSubscription(lago, '2026-11-21T08:00:00Z');
    const early = event('1', { timestamp: Date.UTC(2026, 10, 21, 7, 59, 59) / 1000 });
    await client.events.createBatchEvents({ events: [early, event('2')] });
    expect(await usageOf(lago)).toMatchObject({ units: '0.5' });
    const unbilled: unknown = await (await fetch(`${lago.url}/_fake/unbilled`)).json();
    expect(unbilled).toMatchObject([{ transaction_id: '1' }]);
  });

  test('of a subscription or metric that nobody knows is accepted, and never billed', async () => {
    const lago = await start();
    const client = await withSubscription(lago);
    const events = [event('1', { external_subscription_id: 'x' }), event('2', { code: 'x' })];
    expect((await client.events.createBatchEvents({ events })).status).toBe(200);
    expect(await usageOf(lago)).toMatchObject({ units: '0' });
  });

  test.each(['1e-9', '', 'NaN', ' 1', '.5'])('written as %j is not counted', async (text) => {
    const lago = await start();
    const client = await withSubscription(lago);
    await client.events.createBatchEvents({
      events: [event('1', { properties: { gpu_hours: text } })],
    });
    expect(await usageOf(lago)).toMatchObject({ units: '0' });
  });

  test('is summed without loss', async () => {
    const lago = await start();
    const client = await withSubscription(lago);
    const events = Array.from({ length: 100 }, (_, index) =>
      event(String(index), { properties: { gpu_hours: '0.000000001' } }),
    );
    await client.events.createBatchEvents({ events });
    expect(await usageOf(lago)).toMatchObject({ units: '0.0000001' });
  });

  test('is priced by the most specific filter that matches', async () => {
    const lago = await start();
    const client = await withSubscription(lago);
    const [charge] = lago.state.plans.get('standard')?.charges ?? [];
    if (charge === undefined) throw new Error('no charge');
    charge.filters = [
      { values: { sku: ['h100'] }, properties: { amount: '10' } },
      { values: { sku: ['h100'], capacity_type: ['spot'] }, properties: { amount: '4' } },
    ];
    const properties = { gpu_hours: '1', sku: 'h100', capacity_type: 'spot' };
    await client.events.createBatchEvents({ events: [event('1', { properties })] });
    expect(await usageOf(lago)).toMatchObject({ cents: 400 });
  });
});

describe('answers that senders must distinguish', () => {
  test('no customer, and a customer without a subscription', async () => {
    const client = await withSubscription(await start());
    const probe = (id: string) =>
      client.customers.findCustomerCurrentUsage(id, { external_subscription_id: `sub-${id}` });
    expect(await refusal(probe('nobody'))).toMatchObject({
      status: 404,
      body: { code: 'customer_not_found' },
    });
    await client.customers.createCustomer({ customer: { external_id: 'empty' } });
    expect(await refusal(probe('empty'))).toMatchObject({
      status: 405,
      body: { code: 'no_active_subscription' },
    });
  });

  test('a subscription that is there already is the same one, and may be ended and begun again', async () => {
    const lago = await start();
    const client = await withSubscription(lago);
    const again = {
      external_customer_id: 'acme',
      plan_code: 'standard',
      external_id: 'sub-acme',
    };
    const same = await client.subscriptions.createSubscription({ subscription: again });
    expect(lago.state.subscriptions).toHaveLength(1);
    const ended = await client.subscriptions.destroySubscription('sub-acme');
    expect(ended.data.subscription).toMatchObject({ status: 'terminated' });
    expect(await refusal(client.subscriptions.destroySubscription('sub-acme'))).toMatchObject({
      status: 404,
      body: { code: 'subscription_not_found' },
    });
    const next = await client.subscriptions.createSubscription({ subscription: again });
    expect(next.data.subscription.lago_id).not.toBe(same.data.subscription.lago_id);
  });

  test('a metric by its code where its id belongs', async () => {
    const client = await withSubscription(await start());
    const charge = {
      billable_metric_id: 'gpu_hours',
      charge_model: 'standard' as const,
      code: 'x',
    };
    expect(await refusal(client.plans.createPlanCharge('standard', { charge }))).toMatchObject({
      status: 404,
      body: { code: 'billable_metrics_not_found' },
    });
  });

  test('an amount that is a number', async () => {
    const lago = await start();
    const client = await withSubscription(lago);
    const id = lago.state.metrics.get('gpu_hours')?.lago_id ?? '';
    const charge = {
      billable_metric_id: id,
      charge_model: 'standard' as const,
      code: 'second',
      properties: JSON.parse('{"amount":1}') as { amount: string },
    };
    expect(
      (await refusal(client.plans.createPlanCharge('standard', { charge }))).body,
    ).toMatchObject({ error_details: { amount: ['invalid_amount'] } });
  });

  test('a change of a charge’s model once its plan has subscriptions, and ranges that leave something out', async () => {
    const lago = await start();
    const client = await withSubscription(lago);
    const id = lago.state.metrics.get('gpu_hours')?.lago_id ?? '';
    const last = { per_unit_amount: '2', flat_amount: '0' };
    const ranges = (from: number) => [
      { from_value: 0, to_value: 10, per_unit_amount: '3', flat_amount: '0' },
      { from_value: from, to_value: null, ...last },
    ];
    const model = { billable_metric_id: id, charge_model: 'graduated' as const, code: 'own' };
    const charge = { ...model, properties: { graduated_ranges: ranges(11) } };
    await client.plans.createPlanCharge('standard', { charge });
    const gap = { ...charge, properties: { graduated_ranges: ranges(12) } };
    const refused = await refusal(
      client.plans.updatePlanCharge('standard', 'own', { charge: gap }),
    );
    expect(refused.body).toMatchObject({
      error_details: { graduated_ranges: ['invalid_graduated_ranges'] },
    });
    const filters = [{ values: { sku: ['h100'] }, properties: charge.properties }];
    const unknown = { charge: { ...charge, filters } };
    expect((await refusal(client.plans.updatePlanCharge('standard', 'own', unknown))).status).toBe(
      422,
    );
    await client.billableMetrics.updateBillableMetric('gpu_hours', {
      billable_metric: { ...metric, filters: [{ key: 'sku', values: ['h100'] }] },
    });
    await client.plans.updatePlanCharge('standard', 'own', unknown);
    const other = { charge: { ...charge, charge_model: 'volume' as const } };
    await client.plans.updatePlanCharge('standard', 'own', other);
    const { data } = await client.plans.findPlanCharge('standard', 'own');
    expect(data.charge).toMatchObject({ charge_model: 'graduated', filters });
  });

  test('a customer id with a dot in a path', async () => {
    const client = await withSubscription(await start());
    await client.customers.createCustomer({ customer: { external_id: 'a.b' } });
    expect(await refusal(client.customers.findCustomer('a.b'))).toMatchObject({
      status: 404,
      body: { code: 'resource_not_found' },
    });
    const found = await client.customers.findAllCustomers({ search_term: 'a.b' });
    expect(found.data.customers).toHaveLength(1);
  });

  test('the routes of charges on an older server', async () => {
    const client = await withSubscription(await start({ legacy: true }));
    const charge = { billable_metric_id: 'x', charge_model: 'standard' as const, code: 'x' };
    expect(await refusal(client.plans.createPlanCharge('standard', { charge }))).toMatchObject({
      status: 404,
      body: { code: 'resource_not_found' },
    });
  });
});

test('filters that a change leaves out take their prices with them', async () => {
  const lago = await start();
  const client = await withSubscription(lago);
  const update = (values: string[]) =>
    client.billableMetrics.updateBillableMetric('gpu_hours', {
      billable_metric: { ...metric, filters: [{ key: 'sku', values }] },
    });
  await update(['h100', 'a100']);
  const [charge] = lago.state.plans.get('standard')?.charges ?? [];
  if (charge === undefined) throw new Error('no charge');
  charge.filters = [{ values: { sku: ['h100'] }, properties: { amount: '10' } }];
  await update(['h100', 'a100', 'l40']);
  expect(charge.filters).toHaveLength(1);
  await update(['l40']);
  expect(charge.filters).toHaveLength(0);
});

test('it misbehaves as ordered, and first acts on the request where the order says so', async () => {
  const lago = await start();
  const client = await withSubscription(lago);
  lago.misbehaviours.add({ kind: 'commit-then-reset', path: '/api/v1/events', times: 1 });
  await expect(client.events.createBatchEvents({ events: [event('1')] })).rejects.toThrow(
    'fetch failed',
  );
  expect(lago.state.events.size).toBe(1);
  await fetch(`${lago.url}/_fake/misbehave`, {
    method: 'POST',
    body: JSON.stringify({ kind: 'status', status: 503 }),
  });
  expect((await fetch(`${lago.url}/health`)).status).toBe(503);
  await fetch(`${lago.url}/_fake/behave`, { method: 'POST' });
  expect((await fetch(`${lago.url}/health`)).status).toBe(200);
});

test('a stand-in that is started again remembers what it was sent', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'lago-'));
  closers.push(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'journal');
  const first = await start({ journal: openRequestJournal(file) });
  const client = await withSubscription(first);
  await client.events.createBatchEvents({ events: [event('1')] });
  const second = await start({ journal: openRequestJournal(file) });
  expect(second.state.events).toStrictEqual(first.state.events);
  expect(second.state.plans).toStrictEqual(first.state.plans);
  expect(
    await refusal(sdk(second).events.createBatchEvents({ events: [event('1')] })),
  ).toMatchObject({ status: 422 });
});
