import { afterEach, describe, expect, test } from 'vitest';
import type { ChangeOutcome } from '../destination.ts';
import type { StripeSettings } from './settings.ts';
import type { Tenant } from '../../model/tenant.ts';
import { testTenant } from '../testing/context.ts';
import {
  createStripeWorld,
  gpuEvent,
  NEVER,
  settle,
  type StripeWorld,
} from './testing/stripe-world.ts';

const DONE = { kind: 'done' };
const HOUR_MS = 3_600_000;
const SUBSCRIPTIONS = '/v1/subscriptions';
const NINE = [
  'tenant_cpu_core_hours',
  'tenant_memory_gb_hours',
  'tenant_storage_gb_hours',
  'tenant_instance_hours',
  'tenant_gpu_hours',
  'tenant_network_egress_gb',
  'tenant_lb_hours',
  'tenant_private_node_hours',
];
const METER = 'tenant_gpu_hours';
let open: StripeWorld | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

async function world(settings: Partial<StripeSettings> = {}): Promise<StripeWorld> {
  open = await createStripeWorld({}, { autoSubscribe: true, ...settings });
  await open.ready();
  return open;
}

/** Returns live subscriptions, with the prices of their items. */
function live({ stripe }: StripeWorld) {
  return [...stripe.state.subscriptions.values()]
    .filter(({ status }) => status !== 'canceled')
    .map(({ items }) => items.filter(({ to }) => to === undefined).map(({ price }) => price));
}

/** Sends GPU hours of a moment. */
async function use({ destination }: StripeWorld, at: number): Promise<void> {
  const { sku: _, ...event } = gpuEvent({ window_start: new Date(at).toISOString() });
  expect(await destination.send([event], NEVER)).toStrictEqual([{ kind: 'delivered' }]);
}

/** Returns on how many invoice lines each event is, more than a year later. */
function lines({ stripe, time }: StripeWorld): readonly number[] {
  stripe.turnTo(time.now + 400 * 24 * HOUR_MS);
  return stripe.account().events.map((event) => event.lines);
}

async function provision({ destination }: StripeWorld, tenant: Tenant = testTenant()) {
  await settle(destination, tenant);
  expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual(DONE);
}

describe('a subscription', () => {
  test('has the prices that are tagged with the plan, and reaches back to the first usage', async () => {
    const one = await world();
    const price = await one.price(METER);
    await one.price('tenant_lb_hours', { plan: 'other' });
    await one.price('tenant_lb_hours', { plan: '' });
    await one.price('tenant_lb_hours', { currency: 'eur' });
    const billableFrom = one.time.now - HOUR_MS;
    one.time.now += 300_000;
    await provision(one, testTenant({ billableFrom }));
    expect(live(one)).toStrictEqual([[price]]);
    expect(Object.fromEntries(one.posted(SUBSCRIPTIONS)[0] ?? [])).toMatchObject({
      backdate_start_date: String(billableFrom / 1000),
      'metadata[vbilling_tenant_id]': testTenant().id,
      'metadata[vbilling_plan]': 'tenant-standard',
    });
    await use(one, billableFrom);
    expect(lines(one)).toStrictEqual([1]);
  });

  test('is not made twice, by a restart or after a lost answer', async () => {
    const one = await world();
    await one.price(METER);
    one.time.now += 300_000;
    const path = SUBSCRIPTIONS;
    for (const kind of ['commit-then-reset', 'commit-then-status'] as const) {
      one.stripe.misbehaviours.add({ kind, status: 500, method: 'POST', path, times: 1 });
    }
    const change = (): Promise<ChangeOutcome> | undefined =>
      one.destination.plans.change(testTenant(), one.time.now, NEVER);
    expect(await change()).toMatchObject({ kind: 'retry' });
    await provision(one);
    one.stripe.misbehaviours.clear();
    one.stripe.state.results.clear();
    const again = one.restart();
    await again.bootstrap([], NEVER);
    expect(await again.customers.provision(testTenant(), NEVER)).toStrictEqual(DONE);
    expect(live(one)).toHaveLength(1);
  });

  test('has at most 20 items, of one currency and interval', async () => {
    const one = await world();
    for (const meter of NINE) await one.price(meter);
    await one.destination.send(
      Array.from({ length: 25 }, (_, index) => gpuEvent({ sku: `GPU ${index}` })),
      NEVER,
    );
    for (let index = 0; index < 25; index += 1) {
      const interval = index < 20 ? 'month' : 'year';
      await one.price(`${METER}__gpu_${index}`, { interval });
    }
    one.time.now += 300_000;
    await provision(one);
    const sizes = live(one).map((prices) => prices.length);
    expect(sizes.toSorted((a, b) => a - b)).toStrictEqual([5, 8, 20]);
  });

  test('gets the price of a new SKU while usage flows, without a restart', async () => {
    const one = await world();
    await one.price(METER);
    one.time.now += 300_000;
    await provision(one);
    await one.destination.send([gpuEvent({ sku: 'B200' })], NEVER);
    const added = await one.price(`${METER}__b200`);
    one.time.now += 300_000;
    const event = gpuEvent({ sku: 'B200' });
    expect(await one.destination.send([event], NEVER)).toMatchObject([{ kind: 'provision' }]);
    await provision(one);
    expect(live(one).flat()).toContain(added);
    expect(await one.destination.send([event], NEVER)).toStrictEqual([{ kind: 'delivered' }]);
  });

  test('begins when prices come that were not there at first', async () => {
    const one = await world();
    await provision(one);
    expect(live(one)).toHaveLength(0);
    await one.price(METER);
    one.time.now += 300_000;
    const event = gpuEvent();
    expect(await one.destination.send([event], NEVER)).toMatchObject([{ kind: 'provision' }]);
    await provision(one);
    expect(live(one)).toHaveLength(1);
  });
});

describe('a meter is charged once', () => {
  test('after a change of plan: its price is replaced, and what the plan lacks is removed', async () => {
    const one = await world();
    const silver = await one.price(METER);
    await one.price('tenant_lb_hours');
    const gold = await one.price(METER, { plan: 'gold' });
    one.time.now += 300_000;
    await provision(one);
    expect(live(one)[0]).toHaveLength(2);
    await use(one, one.time.now);
    one.time.now += HOUR_MS;
    await provision(one, testTenant({ plan: 'gold' }));
    expect(live(one)).toStrictEqual([[gold]]);
    await use(one, one.time.now);
    await use(one, one.time.now + HOUR_MS / 20);
    one.time.now += HOUR_MS;
    await provision(one);
    expect(live(one)[0]).toContain(silver);
    expect(live(one)[0]).not.toContain(gold);
    await use(one, one.time.now);
    expect(lines(one)).toStrictEqual([1, 1, 1, 1]);
  });

  test('after a change to a plan of another interval', async () => {
    const one = await world();
    await one.price(METER);
    const yearly = await one.price(METER, { plan: 'gold', interval: 'year' });
    one.time.now += 300_000;
    await provision(one);
    one.time.now += HOUR_MS;
    await use(one, one.time.now - 1_000);
    await provision(one, testTenant({ plan: 'gold' }));
    expect(live(one)).toStrictEqual([[yearly]]);
    await use(one, one.time.now);
    expect(lines(one)).toStrictEqual([1, 1]);
  });

  test('although two prices of it are tagged: the newest counts, unless one is charged already', async () => {
    const one = await world();
    const first = await one.price(METER);
    one.time.now += 300_000;
    await provision(one);
    one.time.now += 1_000;
    const second = await one.price(METER);
    one.time.now += 300_000;
    await provision(one);
    expect(live(one)).toStrictEqual([[first]]);
    const old = one.stripe.state.prices.get(first);
    if (old !== undefined) old.active = false;
    one.time.now += 300_000;
    await provision(one);
    expect(live(one)).toStrictEqual([[second]]);
  });

  test('although somebody else has subscribed the customer to it', async () => {
    const one = await world();
    const price = await one.price(METER);
    const [customer = ''] = one.stripe.state.customers.keys();
    await fetch(`${one.stripe.url}/v1/subscriptions`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_key' },
      body: new URLSearchParams({ customer, 'items[0][price]': price }),
    });
    one.time.now += 300_000;
    await provision(one);
    expect(live(one)).toStrictEqual([[price]]);
  });

  test('when a subscription has ended and the tenant goes on', async () => {
    const one = await world();
    await one.price(METER);
    one.time.now += 300_000;
    await provision(one, testTenant({ billableFrom: one.time.now - HOUR_MS }));
    await use(one, one.time.now);
    one.time.now += HOUR_MS / 2;
    for (const id of one.stripe.state.subscriptions.keys()) {
      await fetch(`${one.stripe.url}/v1/subscriptions/${id}?invoice_now=true`, {
        method: 'DELETE',
        headers: { authorization: 'Bearer sk_test_key' },
      });
    }
    await use(one, one.time.now + HOUR_MS / 20);
    one.time.now += HOUR_MS;
    await provision(one, testTenant({ billableFrom: one.time.now - 4 * HOUR_MS }));
    await use(one, one.time.now);
    expect(lines(one)).toStrictEqual([1, 1, 1]);
  });
});

describe('offboarding', () => {
  test('cancels at the end of the period only when requested', async () => {
    const one = await world();
    await one.price(METER);
    one.time.now += 300_000;
    await provision(one);
    expect(await one.destination.customers.offboard(testTenant(), NEVER)).toStrictEqual(DONE);
    expect(one.posted(`${SUBSCRIPTIONS}/`)).toHaveLength(0);
    const other = one.restart({ cancelOnRemove: true });
    expect(await other.customers.offboard(testTenant(), NEVER)).toStrictEqual(DONE);
    const [subscription] = one.stripe.state.subscriptions.values();
    expect(subscription).toMatchObject({ status: 'active', cancelAtPeriodEnd: true });
    expect(await other.customers.offboard(testTenant(), NEVER)).toStrictEqual(DONE);
    expect(await other.customers.offboard(testTenant({ id: 'nobody' }), NEVER)).toStrictEqual(DONE);
  });

  test('is undone when the tenant is back, but not by late usage, nor where an operator cancelled', async () => {
    const one = await world({ cancelOnRemove: true });
    await one.price(METER);
    one.time.now += 300_000;
    await provision(one);
    await one.destination.customers.offboard(testTenant(), NEVER);
    const [subscription] = one.stripe.state.subscriptions.values();
    await provision(one, testTenant({ clusters: [] }));
    expect(subscription?.cancelAtPeriodEnd).toBe(true);
    await provision(one);
    expect(subscription?.cancelAtPeriodEnd).toBe(false);
    expect(live(one)).toHaveLength(1);
    if (subscription !== undefined) subscription.cancelAtPeriodEnd = true;
    await provision(one);
    expect(subscription?.cancelAtPeriodEnd).toBe(true);
  });
});

test.each([
  [
    { plan: 'bogus' },
    'no active metered price in Stripe has metadata[vbilling_plan]: plan: "bogus"',
  ],
  [{ currency: 'EUR' }, 'plan "tenant-standard" is priced in USD: currency: "EUR"'],
])('a tenant with %j is refused alone, with the reason', async (change, reason) => {
  const one = await world();
  await one.price(METER);
  one.time.now += 300_000;
  expect(await one.destination.customers.provision(testTenant(change), NEVER)).toStrictEqual({
    kind: 'rejected',
    reason,
  });
});
