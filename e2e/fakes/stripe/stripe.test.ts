import { Stripe } from 'stripe';
import { afterEach, describe, expect, test } from 'vitest';
import { reportErrors } from './core-events.ts';
import { type FakeStripe, type FakeStripeOptions, startFakeStripe } from './stripe.ts';

const NOW = Date.UTC(2026, 10, 21, 9, 0, 0);
const SECONDS = NOW / 1000;
const DAY_MS = 86_400_000;
const closers: (() => Promise<void>)[] = [];
let now = NOW;

afterEach(async () => {
  now = NOW;
  for (const close of closers.splice(0)) await close();
});

async function start(options: Partial<FakeStripeOptions> = {}) {
  const stripe = await startFakeStripe({ apiKey: 'sk_test_key', now: () => now, ...options });
  closers.push(() => stripe.close());
  return stripe;
}

/** Stripe's own SDK, pointed at the stand-in. */
function sdk(stripe: FakeStripe, key = 'sk_test_key') {
  const { hostname, port } = new URL(stripe.url);
  return new Stripe(key, {
    host: hostname,
    port: Number(port),
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false,
  });
}

const METER = {
  display_name: 'GPU hours',
  event_name: 'gpu_hours',
  default_aggregation: { formula: 'sum' as const },
};

async function world(options: Partial<FakeStripeOptions> = {}) {
  const stripe = await start(options);
  const client = sdk(stripe);
  const meter = await client.billing.meters.create(METER);
  const customer = await client.customers.create({ name: 'Acme', metadata: { tenant: 'a' } });
  const price = await client.prices.create({
    currency: 'usd',
    product_data: { name: 'GPU' },
    unit_amount_decimal: Stripe.Decimal.from('2.5'),
    recurring: { interval: 'month', usage_type: 'metered', meter: meter.id },
    metadata: { vbilling_plan: 'standard' },
  });
  return { stripe, client, meter, customer, price };
}

function event(customer: string, identifier: string, change: Record<string, unknown> = {}) {
  return {
    event_name: 'gpu_hours',
    identifier,
    timestamp: SECONDS,
    payload: { stripe_customer_id: customer, value: '0.5' },
    ...change,
  };
}

async function refusal(call: Promise<unknown>) {
  const thrown = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(thrown instanceof Stripe.errors.StripeError)) throw new Error('was not refused');
  const { statusCode, code, message, type } = thrown;
  return { statusCode, code, message, type };
}

test('Stripe speaks to its own SDK: from meter to subscription', async () => {
  const { stripe, client, meter, customer, price } = await world();
  const subscription = await client.subscriptions.create({
    customer: customer.id,
    items: [{ price: price.id }],
    backdate_start_date: SECONDS - 3_600,
    metadata: { tenant: 'a' },
  });
  expect(subscription.items.data[0]?.price.id).toBe(price.id);
  const taken = await client.billing.meterEvents.create(event(customer.id, 'e1'));
  expect(taken).toMatchObject({ identifier: 'e1', payload: { value: '0.5' } });
  const summaries = await client.billing.meters.listEventSummaries(meter.id, {
    customer: customer.id,
    start_time: SECONDS,
    end_time: SECONDS + 60,
  });
  expect(summaries.data).toMatchObject([{ aggregated_value: 0.5 }]);
  expect(stripe.account().events).toMatchObject([{ fate: { kind: 'open' } }]);
  const listed = await client.prices.list({ active: true, recurring: { meter: meter.id } });
  expect(listed.data.map(({ id }) => id)).toStrictEqual([price.id]);
});

describe('a meter event', () => {
  test('whose identifier was seen within a day is refused without a code', async () => {
    const { stripe, client, customer } = await world();
    await client.billing.meterEvents.create(event(customer.id, 'e1'));
    expect(
      await refusal(client.billing.meterEvents.create(event(customer.id, 'e1'))),
    ).toMatchObject({
      statusCode: 400,
      code: undefined,
      message: 'An event already exists with identifier e1.',
    });
    now += DAY_MS;
    await client.billing.meterEvents.create(event(customer.id, 'e1'));
    expect(stripe.state.events).toHaveLength(2);
  });

  test.each([
    ['an archived meter', 'archived_meter', {}],
    ['no meter', 'no_meter', { event_name: 'other' }],
    ['too many digits', 'meter_event_value_too_many_digits', { value: '1234567.123456789' }],
    ['an exponent', 'meter_event_invalid_value', { value: '1e-9' }],
    ['an unknown customer', 'meter_event_customer_not_found', { customer: 'cus_x' }],
    ['36 days of age', 'timestamp_too_far_in_past', { timestamp: SECONDS - 36 * 86_400 }],
    ['a time ahead', 'timestamp_in_future', { timestamp: SECONDS + 301 }],
  ])('with %s is refused', async (_, code, change) => {
    const { client, meter, customer } = await world();
    if (code === 'archived_meter') await client.billing.meters.deactivate(meter.id);
    const { value = '0.5', customer: id = customer.id, ...rest } = change as Record<string, string>;
    const payload = { stripe_customer_id: id, value };
    const sent = client.billing.meterEvents.create(event(customer.id, 'e1', { payload, ...rest }));
    expect(await refusal(sent)).toMatchObject({ statusCode: 400, code });
  });

  test('of a customer and meter of which another is under way is refused', async () => {
    const { client, customer } = await world({ latencyMs: 20 });
    const [, second] = await Promise.allSettled([
      client.billing.meterEvents.create(event(customer.id, 'e1')),
      client.billing.meterEvents.create(event(customer.id, 'e2')),
    ]);
    expect(second).toMatchObject({ status: 'rejected', reason: { statusCode: 409 } });
    await client.billing.meterEvents.create(event(customer.id, 'e2'));
  });
});

describe('an idempotency key', () => {
  test('gives the stored result again, and is bound to its parameters', async () => {
    const { client } = await world();
    const options = { idempotencyKey: 'k' };
    const first = await client.customers.create({ name: 'A' }, options);
    expect((await client.customers.create({ name: 'A' }, options)).id).toBe(first.id);
    expect(await refusal(client.customers.create({ name: 'B' }, options))).toMatchObject({
      statusCode: 400,
      type: 'StripeIdempotencyError',
    });
  });

  test('gives a stored 500 again, although the vendor has acted', async () => {
    const { stripe, client, customer } = await world();
    const body = { error: { type: 'api_error', message: 'An unknown error occurred' } };
    stripe.misbehaviours.add({ kind: 'commit-then-status', status: 500, times: 1, body });
    const send = (idempotencyKey: string) =>
      client.billing.meterEvents.create(event(customer.id, 'e1'), { idempotencyKey });
    expect(await refusal(send('k'))).toMatchObject({ statusCode: 500 });
    expect(await refusal(send('k'))).toMatchObject({ statusCode: 500 });
    expect(await refusal(send('k-2'))).toMatchObject({ statusCode: 400 });
    expect(stripe.state.events).toHaveLength(1);
  });
});

describe('refusals that senders must distinguish', () => {
  test('a wrong key, a restricted key, too many requests', async () => {
    const stripe = await start({ requestsPerSecond: 2, lacks: () => 'rak_billing_meter_read' });
    expect(await refusal(sdk(stripe, 'sk_test_x').billing.meters.list())).toMatchObject({
      statusCode: 401,
    });
    expect(await refusal(sdk(stripe).billing.meters.list())).toMatchObject({
      statusCode: 403,
      message: expect.stringContaining("'rak_billing_meter_read' permission") as unknown,
    });
    const fast = await start({ requestsPerSecond: 1 });
    await sdk(fast).billing.meters.list();
    expect(await refusal(sdk(fast).billing.meters.list())).toMatchObject({
      statusCode: 429,
      code: 'rate_limit',
    });
  });

  test('meter events have a limit of their own in live mode, and none in test mode', async () => {
    for (const [rateLimits, refused] of [
      ['live', 0],
      ['test', 1],
    ] as const) {
      const stripe = await start({ rateLimits });
      const post = (path: string) =>
        fetch(stripe.url + path, {
          method: 'POST',
          headers: { authorization: 'Bearer sk_test_key' },
        });
      const statuses: number[] = [];
      for (let call = 0; call < 26; call += 1) {
        statuses.push((await post('/v1/billing/meter_events')).status);
      }
      expect(statuses.filter((status) => status === 429)).toHaveLength(refused);
      const customers: number[] = [];
      for (let call = 0; call < 26; call += 1) {
        customers.push((await post('/v1/customers')).status);
      }
      expect(customers.filter((status) => status === 429)).toHaveLength(refused === 0 ? 1 : 26);
    }
  });

  test('a sum of a meter lags behind what was taken', async () => {
    const { client, meter, customer } = await world({ rules: { sumsLagSeconds: 60 } });
    await client.billing.meterEvents.create(event(customer.id, 'e'));
    const sums = async () => {
      const query = { customer: customer.id, start_time: SECONDS, end_time: SECONDS + 3_600 };
      const { data } = await client.billing.meters.listEventSummaries(meter.id, query);
      return data.map(({ aggregated_value }) => aggregated_value);
    };
    now += 59_999;
    expect(await sums()).toStrictEqual([]);
    now += 1;
    expect(await sums()).toStrictEqual([0.5]);
  });

  test('an unknown parameter, a page that is too large, JSON in place of a form', async () => {
    const { stripe, client } = await world();
    const strange = { ...METER, event_name: 'x', colour: 'red' };
    expect(await refusal(client.billing.meters.create(strange))).toMatchObject({
      code: 'parameter_unknown',
    });
    expect(await refusal(client.customers.list({ limit: 101 }))).toMatchObject({ statusCode: 400 });
    const json = await fetch(`${stripe.url}/v1/customers`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_key', 'content-type': 'application/json' },
      body: '{"name":"A"}',
    });
    expect(json.status).toBe(400);
  });

  test('a second active meter of one event name', async () => {
    const { client, meter } = await world();
    expect(await refusal(client.billing.meters.create(METER))).toMatchObject({ statusCode: 400 });
    await client.billing.meters.deactivate(meter.id);
    await client.billing.meters.create(METER);
    expect(await refusal(client.billing.meters.reactivate(meter.id))).toMatchObject({
      statusCode: 400,
    });
  });
});

test('the search index lags behind, the list does not', async () => {
  const { client, customer } = await world({ searchLagMs: 60_000 });
  const query = "metadata['tenant']:'a'";
  expect((await client.customers.search({ query })).data).toHaveLength(0);
  expect((await client.customers.list({ created: { gte: SECONDS } })).data).toHaveLength(1);
  now += 60_000;
  expect((await client.customers.search({ query })).data[0]?.id).toBe(customer.id);
  await client.customers.del(customer.id);
  expect(await client.customers.retrieve(customer.id)).toMatchObject({ deleted: true });
});

test('a list is read page after page', async () => {
  const { client } = await world();
  for (let index = 0; index < 11; index += 1) await client.customers.create({ name: `${index}` });
  const first = await client.customers.list({ limit: 7 });
  const second = await client.customers.list({
    limit: 7,
    starting_after: first.data.at(-1)?.id ?? '',
  });
  expect([first.has_more, second.has_more]).toStrictEqual([true, false]);
  expect(new Set([...first.data, ...second.data].map(({ id }) => id)).size).toBe(12);
});

describe('a subscription', () => {
  test('has at most 20 items of one currency and interval', async () => {
    const { client, customer } = await world();
    const create = async (count: number, currency = 'usd') => {
      const ids: string[] = [];
      for (let index = 0; index < count; index += 1) {
        const event_name = `m${index}-${currency}-${count}`;
        const { id: meter } = await client.billing.meters.create({ ...METER, event_name });
        const recurring = { interval: 'month' as const, usage_type: 'metered' as const, meter };
        const product_data = { name: 'P' };
        ids.push((await client.prices.create({ currency, product_data, recurring })).id);
      }
      return ids;
    };
    const prices = [...(await create(21)), ...(await create(1, 'eur'))];
    const subscribe = (ids: readonly string[]) =>
      client.subscriptions.create({
        customer: customer.id,
        items: ids.map((price) => ({ price })),
      });
    expect(await refusal(subscribe(prices.slice(0, 21)))).toMatchObject({ statusCode: 400 });
    expect(await refusal(subscribe(prices.slice(20)))).toMatchObject({ statusCode: 400 });
    const made = await subscribe(prices.slice(0, 20));
    const [item] = made.items.data;
    const changed = await client.subscriptions.update(made.id, {
      items: [{ id: item?.id ?? '', price: prices[20] ?? '' }],
      cancel_at_period_end: true,
    });
    expect(changed).toMatchObject({ cancel_at_period_end: true, status: 'active' });
    expect(changed.items.data.map(({ price }) => price.id)).toContain(prices[20]);
    const ended = await client.subscriptions.cancel(made.id, { invoice_now: true });
    expect(ended.status).toBe('canceled');
    expect((await client.subscriptions.list({ customer: customer.id })).data).toHaveLength(0);
  });
});

test('reports of errors that were found later are listed, and each has its data', async () => {
  const { stripe, client, meter } = await world();
  const code = 'meter_event_customer_not_found';
  const errors = { meter: meter.id, code, count: 3, message: 'gone', request: 'e1' };
  reportErrors(stripe.state, errors, now);
  const types = ['v1.billing.meter.error_report_triggered'];
  const { data } = await client.v2.core.events.list({ types });
  expect(data).toMatchObject([{ type: types[0], related_object: { id: meter.id } }]);
  expect(await client.v2.core.events.retrieve(data[0]?.id ?? '')).toMatchObject({
    data: { reason: { error_count: 3 } },
  });
});

test('the SDK sees the address and the tax numbers of a customer', async () => {
  const { client, customer } = await world();
  const address = { line1: 'Street 1', city: 'Köln', postal_code: '50667', country: 'DE' };
  expect((await client.customers.update(customer.id, { address })).address).toMatchObject(address);
  const value = 'DE123456789';
  const made = await client.customers.createTaxId(customer.id, { type: 'eu_vat', value });
  expect((await client.customers.listTaxIds(customer.id)).data).toMatchObject([
    { id: made.id, type: 'eu_vat', value },
  ]);
  const wrong = client.customers.createTaxId(customer.id, { type: 'eu_vat', value: 'DE1' });
  expect(await refusal(wrong)).toMatchObject({ code: 'tax_id_invalid' });
});

describe('the event stream', () => {
  const KEY = 'sk_live_key';
  const streamed = (
    customer: string,
    identifier: string,
    change: Record<string, unknown> = {},
  ) => ({
    ...event(customer, identifier),
    timestamp: new Date(NOW).toISOString(),
    ...change,
  });

  async function live() {
    const stripe = await start({ apiKey: KEY });
    const client = sdk(stripe, KEY);
    const meter = await client.billing.meters.create(METER);
    const customer = await client.customers.create({ name: 'Acme' });
    const session = await client.v2.billing.meterEventSession.create();
    const stream = sdk(stripe, session.authentication_token).v2.billing.meterEventStream;
    return { stripe, client, meter, customer, session, stream };
  }

  test('takes up to a hundred events in a call of a session, and counts each identifier once', async () => {
    const { stripe, client, meter, customer, session, stream } = await live();
    expect(Date.parse(session.expires_at) - Date.parse(session.created)).toBe(900_000);
    const events = Array.from({ length: 100 }, (_, index) => streamed(customer.id, `e-${index}`));
    await stream.create({ events });
    await stream.create({ events: events.slice(0, 1) });
    await client.billing.meterEvents.create(event(customer.id, 'single'));
    await stream.create({ events: [streamed(customer.id, 'single')] });
    expect(stripe.state.repeats).toBe(2);
    const { data } = await client.billing.meters.listEventSummaries(meter.id, {
      customer: customer.id,
      start_time: SECONDS,
      end_time: SECONDS + 60,
    });
    expect(data).toMatchObject([{ aggregated_value: 50.5 }]);
    const more = [...events, streamed(customer.id, 'e-100')];
    await expect(stream.create({ events: more })).rejects.toThrow('1 to 100');
  });

  test('refuses a token after fifteen minutes', async () => {
    const { customer, stream } = await live();
    now += 900_000;
    const thrown = await refusal(stream.create({ events: [streamed(customer.id, 'late')] }));
    expect(thrown).toMatchObject({ statusCode: 401, type: 'TemporarySessionExpiredError' });
  });

  test('takes what it cannot bill, and reports it by the key of the request', async () => {
    const { stripe, client, customer, stream } = await live();
    const events = [
      streamed(customer.id, 'good'),
      streamed('cus_gone', 'gone'),
      streamed(customer.id, 'unknown', { event_name: 'no_such_meter' }),
    ];
    await stream.create({ events }, { idempotencyKey: 'the-call' });
    expect(stripe.state.events).toHaveLength(1);
    const { data } = await client.v2.core.events.list();
    expect(data.map(({ type }) => type)).toStrictEqual([
      'v1.billing.meter.no_meter_found',
      'v1.billing.meter.error_report_triggered',
    ]);
    const report = await client.v2.core.events.retrieve(data[1]?.id ?? '');
    expect(report).toMatchObject({
      data: {
        reason: {
          error_types: [
            {
              code: 'meter_event_customer_not_found',
              error_count: 1,
              sample_errors: [{ request: { identifier: 'the-call' } }],
            },
          ],
        },
      },
    });
  });
});

test('a price with tiers is found by its lookup key, in the archive too, and shows its tiers on request', async () => {
  const { client, meter } = await world();
  const price = await client.prices.create({
    currency: 'usd',
    product_data: { name: 'GPU' },
    billing_scheme: 'tiered',
    tiers_mode: 'graduated',
    tiers: [
      { up_to: 10, unit_amount_decimal: Stripe.Decimal.from('0') },
      { up_to: 'inf', unit_amount_decimal: Stripe.Decimal.from('2.5') },
    ],
    recurring: { interval: 'month', usage_type: 'metered', meter: meter.id },
    lookup_key: 'gold',
    metadata: { vbilling_plan: 'gold' },
  });
  await client.prices.update(price.id, { active: false });
  const found = await client.prices.list({ lookup_keys: ['gold'], expand: ['data.tiers'] });
  expect(found.data.map(({ id }) => id)).toStrictEqual([price.id]);
  expect(found.data[0]?.tiers?.map(({ up_to }) => up_to)).toStrictEqual([10, null]);
  expect(found.data[0]).toMatchObject({ active: false, billing_scheme: 'tiered' });
  const again = {
    currency: 'usd',
    product_data: { name: 'GPU' },
    unit_amount_decimal: Stripe.Decimal.from('1'),
    recurring: { interval: 'month', usage_type: 'metered', meter: meter.id } as const,
    lookup_key: 'gold',
  };
  expect(await refusal(client.prices.create(again))).toMatchObject({ statusCode: 400 });
});
