import { afterEach, expect, test } from 'vitest';
import type { FakeStripeOptions } from '../../../e2e/fakes/stripe/stripe.ts';
import { testTenant } from '../testing/context.ts';
import type { StripeSettings } from './settings.ts';
import { createStripeWorld, gpuEvent, NEVER, type StripeWorld } from './testing/stripe-world.ts';

const SESSIONS = '/v2/billing/meter_event_session';
const STREAM = '/v2/billing/meter_event_stream';
const SINGLE = '/v1/billing/meter_events';
const MINUTE_MS = 60_000;
const DELIVERED = { kind: 'delivered' };
let open: StripeWorld | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

/** Returns a world with a live key and the stream, bootstrapped and provisioned. */
async function world(
  options: Partial<FakeStripeOptions> = {},
  settings: Partial<StripeSettings> = {},
): Promise<StripeWorld> {
  const all = { apiKey: 'sk_live_key', ...options };
  open = await createStripeWorld(all, { meterEventStream: true, ...settings });
  await open.ready();
  return open;
}

function events(count: number) {
  return Array.from({ length: count }, () => gpuEvent());
}

test('usage goes by the hundred, under one session, and each event counts once', async () => {
  const { destination, stripe, count, context } = await world();
  const batch = events(250);
  expect(await destination.send(batch, NEVER)).toStrictEqual(batch.map(() => DELIVERED));
  expect([count('POST', SESSIONS), count('POST', STREAM), count('POST', SINGLE)]).toStrictEqual([
    1, 3, 0,
  ]);
  expect(stripe.state.events.map(({ identifier }) => identifier).toSorted()).toStrictEqual(
    batch.map(({ id }) => id),
  );
  expect(stripe.state.events.every(({ value }) => value === '0.5')).toBe(true);
  expect(destination.limits.eventsPerSecond).toBe(1_000);
  const [token = ''] = stripe.state.sessions.keys();
  expect(context.logger.lines.join()).not.toContain(token);
});

test('a session is left before it ends', async () => {
  const { destination, time, stripe, count } = await world();
  await destination.send(events(1), NEVER);
  time.now += 14 * MINUTE_MS;
  await destination.send(events(1), NEVER);
  expect([count('POST', SESSIONS), count('POST', STREAM)]).toStrictEqual([2, 2]);
  expect(stripe.state.events).toHaveLength(2);
});

test('a session that ends in the middle costs one more call and no event', async () => {
  const { destination, stripe, count } = await world();
  await destination.send(events(1), NEVER);
  stripe.state.sessions.clear();
  expect(await destination.send(events(2), NEVER)).toStrictEqual([DELIVERED, DELIVERED]);
  expect([count('POST', SESSIONS), count('POST', STREAM)]).toStrictEqual([2, 3]);
  expect(stripe.state.events).toHaveLength(3);
});

test('a session that nobody can open holds everything, with the permission that lacks', async () => {
  const lacks = (_: string, path: string) =>
    path === SESSIONS ? 'rak_meter_event_write' : undefined;
  const { destination } = await world({ lacks });
  expect(await destination.send(events(1), NEVER)).toStrictEqual([
    {
      kind: 'blocked',
      reason:
        'Stripe API error 403: the API key lacks "Meter events: write" (rak_meter_event_write)',
    },
  ]);
});

test('a call whose answer was lost is made again, and nothing counts twice', async () => {
  const { destination, stripe } = await world();
  const batch = events(120);
  stripe.misbehaviours.add({ kind: 'commit-then-reset', path: STREAM, times: 1 });
  const first = await destination.send(batch, NEVER);
  expect(new Set(first.map(({ kind }) => kind))).toContain('retry');
  expect(await destination.send(batch, NEVER)).toStrictEqual(batch.map(() => DELIVERED));
  expect(stripe.state.events).toHaveLength(120);
});

test('what may be there already stays on the stream when reports may not be read any more', async () => {
  let isLacking = false;
  const lacks = (_: string, path: string) =>
    isLacking && path.startsWith('/v2/core') ? 'rak_events_read' : undefined;
  const { destination, stripe, time, count } = await world({ lacks });
  const [lost] = events(1);
  stripe.misbehaviours.add({ kind: 'commit-then-reset', path: STREAM, times: 1 });
  if (lost === undefined) throw new Error('no event');
  expect(await destination.send([lost], NEVER)).toMatchObject([{ kind: 'retry' }]);
  isLacking = true;
  time.now += 10 * MINUTE_MS;
  expect(await destination.send([gpuEvent(), lost], NEVER)).toStrictEqual([DELIVERED, DELIVERED]);
  expect([count('POST', STREAM), count('POST', SINGLE)]).toStrictEqual([2, 1]);
  expect(stripe.state.events).toHaveLength(2);
});

test('a rate limit stops the calls that were still to come', async () => {
  const { destination, stripe, count } = await world();
  const body = { error: { code: 'meter_event_rate_limit', message: 'Too many requests.' } };
  stripe.misbehaviours.add({ kind: 'status', path: STREAM, status: 429, body, times: 4 });
  const outcomes = await destination.send(events(1_000), NEVER);
  expect(outcomes).toHaveLength(1_000);
  expect(new Set(outcomes.map(({ kind }) => kind))).toStrictEqual(new Set(['retry']));
  expect(outcomes[999]).toMatchObject({ reason: 'Stripe API error 429: rate limit' });
  // At most four calls at once.
  expect(count('POST', STREAM)).toBeLessThanOrEqual(4);
});

test('events of a call that is refused go one by one, so that the wrong one is named', async () => {
  const { destination, stripe, context } = await world();
  const good = gpuEvent();
  const old = gpuEvent({ window_start: '2026-10-01T00:00:00Z' });
  const body = { error: { code: 'invalid_fields', message: 'cannot be read' } };
  stripe.misbehaviours.add({ kind: 'status', path: STREAM, status: 400, body, times: 1 });
  const outcomes = await destination.send([good, old], NEVER);
  expect(outcomes).toMatchObject([{ kind: 'delivered' }, { kind: 'rejected' }]);
  expect(context.logger.lines.join()).toContain('2 events go one by one');
});

test('a token that Stripe repeats in a refusal is in no log', async () => {
  const { destination, stripe, context } = await world();
  await destination.send(events(1), NEVER);
  const [token = ''] = stripe.state.sessions.keys();
  const body = { error: { code: 'invalid_fields', message: `cannot be read: Bearer ${token}` } };
  stripe.misbehaviours.add({ kind: 'status', path: STREAM, status: 400, body, times: 1 });
  expect(await destination.send(events(1), NEVER)).toStrictEqual([DELIVERED]);
  const lines = context.logger.lines.join();
  expect(lines).toContain('1 events go one by one: Stripe API error 400: invalid_fields');
  expect(lines).not.toContain(token);
});

test('a customer who is gone is reported, and the next usage goes to another one', async () => {
  const { destination, stripe, time, ready, context } = await world();
  const [customer = ''] = stripe.state.customers.keys();
  const gone = stripe.state.customers.get(customer);
  if (gone === undefined) throw new Error('no customer');
  gone.deleted = true;
  const lost = gpuEvent();
  expect(await destination.send([lost], NEVER)).toStrictEqual([DELIVERED]);
  expect(stripe.state.events).toStrictEqual([]);
  time.now += 10 * MINUTE_MS;
  const next = gpuEvent();
  expect(await destination.send([next], NEVER)).toMatchObject([{ kind: 'provision' }]);
  const { id: example } = lost;
  expect(destination.alerts.lateRefusals()).toMatchObject([
    { events: 1, example, reason: expect.stringContaining('the call of up to 100 events') },
  ]);
  expect(context.logger.lines.join()).toContain('accepted and refused later');
  await ready(testTenant());
  expect(await destination.send([next], NEVER)).toStrictEqual([DELIVERED]);
  expect(stripe.state.events).toHaveLength(1);
});

test('a meter that was archived is reported, and the next usage brings it back', async () => {
  const { destination, stripe, time } = await world();
  await destination.send(events(1), NEVER);
  for (const meter of stripe.state.meters.values()) meter.status = 'inactive';
  expect(await destination.send(events(1), NEVER)).toStrictEqual([DELIVERED]);
  time.now += 10 * MINUTE_MS;
  await destination.send(events(1), NEVER);
  expect(destination.alerts.lateRefusals()).toMatchObject([{ events: 1 }]);
  expect(stripe.state.events).toHaveLength(2);
});

test.each([
  ['a test key', { apiKey: 'sk_test_key' }, {}],
  ['a key that may not read events', { lacks: lacksEvents }, {}],
  ['the switch off', {}, { meterEventStream: false }],
])('with %s events go one by one', async (_, options, settings) => {
  const { destination, count } = await world(options, settings);
  expect(await destination.send(events(2), NEVER)).toStrictEqual([DELIVERED, DELIVERED]);
  expect([count('POST', STREAM), count('POST', SINGLE)]).toStrictEqual([0, 2]);
});

test('until it is known whether reports can be read, usage waits', async () => {
  const { destination, stripe, time } = await world();
  stripe.misbehaviours.add({ kind: 'status', path: '/v2/core/events', times: 1 });
  const batch = events(1);
  expect(await destination.send(batch, NEVER)).toMatchObject([{ kind: 'retry' }]);
  time.now += 10_000;
  expect(await destination.send(batch, NEVER)).toStrictEqual([DELIVERED]);
});

function lacksEvents(_: string, path: string): string | undefined {
  return path.startsWith('/v2/core') ? 'rak_events_read' : undefined;
}
