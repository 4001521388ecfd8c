import { afterEach, describe, expect, test } from 'vitest';
import type { FakeStripeOptions } from '../../../e2e/fakes/stripe/stripe.ts';
import { Secret } from '../../model/secret.ts';
import type { StripeSettings } from './settings.ts';
import { testTenant } from '../testing/context.ts';
import { createStripeWorld, gpuEvent, NEVER, type StripeWorld } from './testing/stripe-world.ts';

const EVENTS = '/v1/billing/meter_events';
const DAY_MS = 86_400_000;
const DELIVERED = { kind: 'delivered' };
let open: StripeWorld | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

async function world(
  options: Partial<FakeStripeOptions> = {},
  settings: Partial<StripeSettings> = {},
): Promise<StripeWorld> {
  open = await createStripeWorld(options, settings);
  return open;
}

describe('a usage event', () => {
  test('becomes a meter event of its SKU, stamped with its window’s start', async () => {
    const { destination, ready, posted, stripe } = await world();
    await ready();
    const event = gpuEvent({ quantity: '7.999999999' });
    expect(await destination.send([event], NEVER)).toStrictEqual([DELIVERED]);
    const [customer] = stripe.state.customers.keys();
    expect(Object.fromEntries(posted(EVENTS)[0] ?? [])).toStrictEqual({
      event_name: 'tenant_gpu_hours__h100_80gb',
      identifier: event.id,
      timestamp: String(Date.UTC(2026, 10, 21, 9) / 1000),
      'payload[stripe_customer_id]': customer,
      'payload[value]': '7.999999999',
    });
  });

  test('without a SKU goes to the meter of its metric, and never to two', async () => {
    const { destination, ready, stripe } = await world();
    await ready();
    const { sku: _, ...bare } = gpuEvent();
    await destination.send([bare, gpuEvent()], NEVER);
    expect(stripe.state.events.map(({ event_name }) => event_name).toSorted()).toStrictEqual([
      'tenant_gpu_hours',
      'tenant_gpu_hours__h100_80gb',
    ]);
  });

  test('is pinned to an API version, and its request to its id', async () => {
    const { destination, ready, stripe } = await world();
    await ready();
    const event = gpuEvent();
    await destination.send([event], NEVER);
    const sent = stripe.requests.find(({ path }) => path === EVENTS);
    expect(sent?.headers).toMatchObject({
      'stripe-version': '2026-09-30.endive',
      'idempotency-key': event.id,
      authorization: 'Bearer sk_test_key',
    });
  });

  test('that Stripe has already is delivered, not billed again', async () => {
    const { destination, ready, restart, stripe } = await world();
    await ready();
    const event = gpuEvent();
    await destination.send([event], NEVER);
    stripe.state.results.clear();
    expect(await destination.send([event], NEVER)).toStrictEqual([DELIVERED]);
    const again = restart();
    await again.customers.provision(testTenant(), NEVER);
    expect(await again.send([event], NEVER)).toStrictEqual([DELIVERED]);
    expect(stripe.state.events).toHaveLength(1);
  });

  test('of too many digits is rounded half to even, and reports it', async () => {
    const { destination, ready, stripe, context } = await world();
    await ready();
    await destination.send([gpuEvent({ quantity: '1234567.123456785' })], NEVER);
    expect(stripe.state.events[0]?.value).toBe('1234567.12345678');
    expect(context.logger.lines.join()).toContain('rounded to the 15 digits');
  });

  test('that is too old for Stripe is rejected, and the others are sent', async () => {
    const { destination, ready } = await world();
    await ready();
    const old = gpuEvent({ window_start: '2026-10-01T00:00:00Z' });
    const outcomes = await destination.send([old, gpuEvent()], NEVER);
    expect(outcomes).toMatchObject([{ kind: 'rejected' }, DELIVERED]);
  });
});

describe('trouble at Stripe', () => {
  test('that is stored under a key does not last for a day: the key changes, the identifier stays', async () => {
    const { destination, ready, stripe, count } = await world();
    await ready();
    const event = gpuEvent();
    stripe.misbehaviours.add({ kind: 'commit-then-status', status: 500, path: EVENTS, times: 1 });
    expect(await destination.send([event], NEVER)).toMatchObject([{ kind: 'retry' }]);
    expect(await destination.send([event], NEVER)).toStrictEqual([DELIVERED]);
    const keys = stripe.requests
      .filter(({ path }) => path === EVENTS)
      .map(({ headers }) => headers['idempotency-key']);
    expect(keys).toStrictEqual([event.id, `${event.id}-2`]);
    expect(count('POST', EVENTS)).toBe(2);
    expect(stripe.state.events).toHaveLength(1);
  });

  test('after a lost answer: the same request is made again, and counted once', async () => {
    const { destination, ready, stripe } = await world();
    await ready();
    const event = gpuEvent();
    stripe.misbehaviours.add({ kind: 'commit-then-reset', path: EVENTS, times: 1 });
    expect(await destination.send([event], NEVER)).toMatchObject([{ kind: 'retry' }]);
    expect(await destination.send([event], NEVER)).toStrictEqual([DELIVERED]);
    expect(stripe.state.events).toHaveLength(1);
  });

  test('with the rate limit stops the batch and waits as the answer says', async () => {
    const { destination, ready, stripe, count } = await world();
    await ready();
    await destination.send([gpuEvent()], NEVER);
    const before = count('POST', EVENTS);
    const headers = { 'retry-after': '7' };
    stripe.misbehaviours.add({ kind: 'status', status: 429, path: EVENTS, headers });
    const events = Array.from({ length: 40 }, () => gpuEvent());
    const outcomes = await destination.send(events, NEVER);
    expect(outcomes.every((one) => one.kind === 'retry' && one.afterMs === 7_000)).toBe(true);
    expect(count('POST', EVENTS) - before).toBe(1);
  });

  test('with the key holds everything, and names the permission that is missing', async () => {
    const lacks = (method: string, path: string) =>
      method === 'POST' && path === EVENTS ? 'rak_billing_meter_event_write' : undefined;
    const { destination, ready } = await world({ lacks });
    await ready();
    const reason =
      'Stripe API error 403: the API key lacks "Meter events: write" (rak_billing_meter_event_write)';
    expect(await destination.send([gpuEvent()], NEVER)).toStrictEqual([
      { kind: 'blocked', reason },
    ]);
  });

  test('with a wrong key is reported at bootstrap without the key', async () => {
    const { restart } = await world();
    const other = restart({ apiKey: new Secret('sk_test_other') });
    expect(await other.bootstrap([], NEVER)).toStrictEqual({
      kind: 'blocked',
      reason: 'Stripe API error 401: check the API key',
    });
  });
});

describe('meters', () => {
  test('that were archived are taken out of the archive before usage is lost', async () => {
    const { destination, ready, stripe } = await world();
    await ready();
    await destination.send([gpuEvent()], NEVER);
    for (const meter of stripe.state.meters.values()) meter.status = 'inactive';
    expect(await destination.send([gpuEvent()], NEVER)).toStrictEqual([DELIVERED]);
    const states = [...stripe.state.meters.values()].map(({ status }) => status);
    expect(states.filter((status) => status === 'active')).toHaveLength(1);
    expect(stripe.state.meters.size).toBe(11);
  });

  test('are made once for all lines that need them at the same time', async () => {
    const { destination, ready, posted } = await world({ latencyMs: 5 });
    const tenants = ['a', 'b', 'c', 'd'].map((id) => testTenant({ id }));
    await ready(...tenants);
    const events = tenants.map(({ id: tenant }) => gpuEvent({ tenant }));
    expect(await destination.send(events, NEVER)).toStrictEqual(events.map(() => DELIVERED));
    const names = posted('/v1/billing/meters').map((form) => form.get('event_name'));
    expect(names.filter((name) => name === 'tenant_gpu_hours__h100_80gb')).toHaveLength(1);
  });

  test('that Stripe does not let us make cost their own events only', async () => {
    const { destination, ready, stripe } = await world();
    await ready();
    const body = { error: { type: 'invalid_request_error', message: 'Too many meters.' } };
    const path = '/v1/billing/meters';
    stripe.misbehaviours.add({ kind: 'status', status: 400, method: 'POST', path, body, times: 1 });
    const { sku: _, ...bare } = gpuEvent();
    const outcomes = await destination.send([gpuEvent({ sku: 'B200' }), bare], NEVER);
    const reason =
      'meter "tenant_gpu_hours__b200" was not created: Stripe API error 400: Too many meters.';
    expect(outcomes).toStrictEqual([{ kind: 'rejected', reason }, DELIVERED]);
  });

  test('that do not sum are not fed: their events are rejected with what to do', async () => {
    const { destination, ready, stripe } = await world();
    await fetch(`${stripe.url}/v1/billing/meters`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_key' },
      body: new URLSearchParams({
        display_name: 'x',
        event_name: 'tenant_gpu_hours__h100_80gb',
        'default_aggregation[formula]': 'count',
      }),
    });
    await ready();
    const [outcome] = await destination.send([gpuEvent()], NEVER);
    expect(outcome).toMatchObject({ kind: 'rejected' });
    expect(outcome?.kind === 'rejected' && outcome.reason).toContain('"count"; archive it');
    for (const meter of stripe.state.meters.values()) {
      if (meter.formula === 'count') meter.status = 'inactive';
    }
    const again = open?.restart();
    await again?.bootstrap([], NEVER);
    await again?.customers.provision(testTenant(), NEVER);
    expect(await again?.send([gpuEvent()], NEVER)).toStrictEqual([DELIVERED]);
  });
});

describe('order and concurrency', () => {
  test('one call at a time for a customer and meter, in order; the rest side by side', async () => {
    const { destination, ready, stripe } = await world({ latencyMs: 5 });
    const tenants = ['a', 'b', 'c'].map((id) => testTenant({ id }));
    await ready(...tenants);
    const events = Array.from({ length: 8 }, () => tenants)
      .flat()
      .map(({ id: tenant }) => gpuEvent({ tenant }));
    const outcomes = await destination.send(events, NEVER);
    expect(outcomes).toStrictEqual(events.map(() => DELIVERED));
    for (const { id } of tenants) {
      const sent = events.filter(({ tenant }) => tenant === id).map((event) => event.id);
      const taken = stripe.state.events.map(({ identifier }) => identifier);
      expect(taken.filter((one) => sent.includes(one))).toStrictEqual(sent);
    }
  });

  test('what comes after an event in trouble waits with it, for the same customer and meter alone', async () => {
    const { destination, ready, stripe, count } = await world();
    const tenants = ['a', 'b'].map((id) => testTenant({ id }));
    await ready(...tenants);
    await destination.send([gpuEvent({ tenant: 'a' })], NEVER);
    const before = count('POST', EVENTS);
    stripe.misbehaviours.add({ kind: 'status', status: 409, path: EVENTS, times: 1 });
    const events = ['a', 'a', 'b'].map((tenant) => gpuEvent({ tenant }));
    const outcomes = await destination.send(events, NEVER);
    expect(outcomes.map(({ kind }) => kind)).toStrictEqual(['retry', 'retry', 'delivered']);
    expect(count('POST', EVENTS) - before).toBe(2);
  });

  test('a customer that is gone delays nobody else, and is made again', async () => {
    const { destination, ready, stripe } = await world();
    const tenants = ['a', 'b'].map((id) => testTenant({ id }));
    await ready(...tenants);
    const [first] = stripe.state.customers.values();
    if (first !== undefined) first.deleted = true;
    const events = [
      gpuEvent({ tenant: 'a' }),
      gpuEvent({ tenant: 'a' }),
      gpuEvent({ tenant: 'b' }),
    ];
    const outcomes = await destination.send(events, NEVER);
    expect(outcomes.map(({ kind }) => kind)).toStrictEqual(['provision', 'provision', 'delivered']);
    expect(await destination.customers.provision(testTenant({ id: 'a' }), NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(await destination.send(events, NEVER)).toStrictEqual(events.map(() => DELIVERED));
    expect(stripe.state.customers.size).toBe(3);
  });
});

test('reconciliation sums all meters of a metric', async () => {
  const { destination, ready } = await world();
  await ready();
  const { sku: _, ...bare } = gpuEvent({ quantity: '0.1' });
  await destination.send([bare, gpuEvent({ quantity: '0.2' }), gpuEvent({ sku: 'L40' })], NEVER);
  const from = Date.UTC(2026, 10, 21);
  const query = { tenant: testTenant(), metric: 'tenant_gpu_hours', from, to: from + DAY_MS };
  expect(await destination.sums.total(query, NEVER)).toStrictEqual({
    kind: 'total',
    quantity: '0.8',
  });
  const nobody = { ...query, tenant: testTenant({ id: 'nobody' }) };
  expect(await destination.sums.total(nobody, NEVER)).toMatchObject({ quantity: '0' });
});

test('usage without a price is shown until somebody sets one', async () => {
  const { destination, ready, price, time } = await world();
  await ready();
  await destination.send([gpuEvent()], NEVER);
  const usage = { plan: 'tenant-standard', metric: 'tenant_gpu_hours', sku: 'H100-80GB' };
  expect(destination.prices.unpriced()).toStrictEqual([usage]);
  await price('tenant_gpu_hours__h100_80gb', { plan: '' });
  time.now += 300_000;
  await destination.send([gpuEvent()], NEVER);
  expect(destination.prices.unpriced()).toStrictEqual([]);
});
