import { afterEach, expect, test } from 'vitest';
import type { FakeRequest } from '../../e2e/fakes/fake-server.ts';
import { startFakeLago } from '../../e2e/fakes/lago/lago.ts';
import { startFakeMetronome } from '../../e2e/fakes/metronome/metronome.ts';
import { startFakeStripe } from '../../e2e/fakes/stripe/stripe.ts';
import { type Environment, loadEnvironment } from '../settings/load-environment.ts';
import type { Destination } from '../destinations/destination.ts';
import { createDestinationRegistry } from '../destinations/registry.ts';
import { createTestContext, testTenant } from '../destinations/testing/context.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { startTestServer } from '../outbound/testing/test-server.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { COLLECTOR_METRICS } from '../model/catalog.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

/** Every test changes variables of the environment and looks at what a vendor receives for it. */

const { signal } = new AbortController();
const DONE = { kind: 'done' };
const METRICS = COLLECTOR_METRICS.filter(({ informational }) => !informational);

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

function stored<T extends { close(): Promise<void> }>(closable: T): T {
  closers.push(() => closable.close());
  return closable;
}

/**
 * The destination that an environment makes, and how long it has waited so as not to be too fast.
 */
function destinationOf(environment: Environment) {
  const loaded = loadEnvironment(environment, DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join('\n'));
  const [settings] = loaded.settings.billing.destinations;
  if (settings === undefined) throw new Error('no destination');
  const waited = { ms: 0 };
  const context = createTestContext({
    ...systemClock,
    now: () => systemClock.now() + waited.ms,
    monotonic: () => systemClock.monotonic() + waited.ms,
    sleep: async (ms) => void (waited.ms += ms),
  });
  const made = createDestinationRegistry(context)(settings);
  if (made.kind === 'invalid') throw new Error(made.reason);
  return { destination: stored(made.destination), waited };
}

async function ready(destination: Destination, tenant = testTenant()): Promise<void> {
  expect(await destination.bootstrap(METRICS, signal)).toStrictEqual(DONE);
  expect(await destination.customers?.provision(tenant, signal)).toStrictEqual(DONE);
}

function recentEvent(change: Parameters<typeof testEvent>[0] = {}) {
  const minute = 60_000;
  return testEvent({ windowStart: Math.floor(Date.now() / minute - 5) * minute, ...change });
}

test('WEBHOOK_URL, WEBHOOK_SECRET, WEBHOOK_HEADERS and CLUSTER_NAME: a batch goes there, signed, with the headers, from the source', async () => {
  const answer = (_: unknown, response: { writeHead(code: number): { end(): unknown } }) =>
    void response.writeHead(200).end();
  const receiver = stored(await startTestServer(answer));
  const plain = { ADAPTERS: 'webhook', WEBHOOK_URL: `${receiver.url}/plain` };
  const full = {
    ADAPTERS: 'webhook',
    WEBHOOK_URL: `${receiver.url}/usage?team=a`,
    WEBHOOK_SECRET: 'new-secret,old-secret',
    WEBHOOK_HEADERS: 'X-Team=blue',
    CLUSTER_NAME: 'cp-7',
  };
  for (const environment of [plain, full]) {
    const { destination } = destinationOf(environment);
    expect(await destination.send([testEvent()], signal)).toStrictEqual([{ kind: 'delivered' }]);
  }
  const [first, second] = receiver.requests;
  expect(first?.url).toBe('/plain');
  expect(first?.headers).not.toHaveProperty('x-svc-signature');
  expect(first?.headers).not.toHaveProperty('x-team');
  expect(JSON.parse(first?.body ?? '')).toMatchObject([{ source: 'control-plane' }]);
  expect(second?.url).toBe('/usage?team=a');
  // One signature for each secret of a rotation.
  expect(second?.headers['x-svc-signature']).toMatch(/^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/);
  expect(second?.headers).toMatchObject({ 'x-team': 'blue' });
  expect(JSON.parse(second?.body ?? '')).toMatchObject([{ source: 'cp-7' }]);
});

test('BILLING_C_API_URL, BILLING_C_API_KEY, DEFAULT_PLAN_CODE and BILLING_CURRENCY: the plan is made there, with that key, code and currency', async () => {
  const lago = stored(await startFakeLago({ apiKey: 'the-key' }));
  const base = { ADAPTERS: 'billing_c', BILLING_C_API_URL: lago.url, BILLING_C_API_KEY: 'the-key' };
  const { destination: refused } = destinationOf({ ...base, BILLING_C_API_KEY: 'another' });
  expect(await refused.bootstrap(METRICS, signal)).not.toStrictEqual(DONE);
  expect(lago.state.plans.size).toBe(0);
  await ready(destinationOf(base).destination);
  const changed = { ...base, DEFAULT_PLAN_CODE: 'gold', BILLING_CURRENCY: 'EUR' };
  const gold = testTenant({ id: 'tenant-b-b' });
  await ready(destinationOf(changed).destination, gold);
  const plans = [...lago.state.plans.values()];
  expect(plans.map(({ code, amount_currency }) => [code, amount_currency])).toStrictEqual([
    ['tenant-standard', 'USD'],
    ['gold', 'EUR'],
  ]);
  expect(lago.state.subscriptions.map(({ plan_code }) => plan_code)).toStrictEqual([
    'tenant-standard',
    'gold',
  ]);
});

async function stripeOf(change: Environment = {}) {
  const stripe = stored(await startFakeStripe({ apiKey: 'sk_test_key' }));
  const made = destinationOf({
    ADAPTERS: 'billing_a',
    BILLING_A_API_BASE: stripe.url,
    BILLING_A_API_KEY: 'sk_test_key',
    ...change,
  });
  /** As an operator does it at Stripe, before tenants come. */
  const price = async () => {
    const [meter] = stripe.state.meters.values();
    const answer = await fetch(`${stripe.url}/v1/prices`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_key', 'idempotency-key': 'price' },
      body: new URLSearchParams({
        currency: 'usd',
        'product_data[name]': 'x',
        unit_amount_decimal: '1',
        'recurring[interval]': 'month',
        'recurring[usage_type]': 'metered',
        'recurring[meter]': meter?.id ?? '',
        'metadata[vbilling_plan]': 'tenant-standard',
      }),
    });
    expect(answer.status).toBe(200);
  };
  return { stripe, price, ...made };
}

test('BILLING_A_API_BASE, BILLING_A_API_KEY and BILLING_A_API_VERSION: the address, the key and the version of its API', async () => {
  const usual = await stripeOf();
  await ready(usual.destination);
  const changed = await stripeOf({ BILLING_A_API_VERSION: '2027-01-31.fir' });
  await ready(changed.destination);
  const versions = (requests: readonly FakeRequest[]) =>
    new Set(requests.map(({ headers }) => headers['stripe-version']));
  expect(versions(usual.stripe.requests)).toStrictEqual(new Set(['2026-09-30.endive']));
  expect(versions(changed.stripe.requests)).toStrictEqual(new Set(['2027-01-31.fir']));
  const refused = await stripeOf({ BILLING_A_API_KEY: 'sk_test_another' });
  expect(await refused.destination.bootstrap(METRICS, signal)).not.toStrictEqual(DONE);
  expect(refused.stripe.requests.length).toBeGreaterThan(0);
});

test('BILLING_A_SPLIT_METERS_BY: meters are split by it', async () => {
  const names = async (change: Environment): Promise<readonly string[]> => {
    const { stripe, destination } = await stripeOf(change);
    await ready(destination);
    const event = {
      ...recentEvent(),
      metric: 'tenant_gpu_hours',
      unit: 'gpu-hours',
      sku: 'H100',
      dimensions: { capacity_type: 'spot' },
    };
    await destination.send([event], signal);
    return [...stripe.state.meters.values()].map(({ event_name }) => event_name);
  };
  expect(await names({})).toContain('tenant_gpu_hours__h100');
  const split = await names({ BILLING_A_SPLIT_METERS_BY: 'capacity_type' });
  expect(split).toContain('tenant_gpu_hours__spot');
  expect(split).not.toContain('tenant_gpu_hours__h100');
});

test('BILLING_A_MAX_RPS: meter events are no faster than it', async () => {
  const waits = async (change: Environment): Promise<number> => {
    const { destination, waited } = await stripeOf(change);
    await ready(destination);
    const before = waited.ms;
    await destination.send(
      Array.from({ length: 40 }, () => recentEvent()),
      signal,
    );
    return waited.ms - before;
  };
  // Twenty a second for a key of test mode, or two.
  expect(await waits({})).toBeLessThan(4_000);
  expect(await waits({ BILLING_A_MAX_RPS: '2' })).toBeGreaterThan(15_000);
});

test('BILLING_A_AUTO_SUBSCRIBE and BILLING_A_CANCEL_ON_REMOVE: a tenant is subscribed, and cancelled when it goes', async () => {
  const subscriptions = async (change: Environment) => {
    const { stripe, destination, price } = await stripeOf(change);
    expect(await destination.bootstrap(METRICS, signal)).toStrictEqual(DONE);
    await price();
    const provisioned = await destination.customers?.provision(testTenant(), signal);
    // What is subscribed to waits for usage, of which there is none here.
    if (provisioned?.kind === 'drain') {
      await destination.plans?.change(testTenant(), provisioned.before, signal);
    }
    expect(await destination.customers?.provision(testTenant(), signal)).toStrictEqual(DONE);
    expect(await destination.customers?.offboard(testTenant(), signal)).toStrictEqual(DONE);
    const made = [...stripe.state.subscriptions.values()];
    // Billed on the first of the month, whichever day it is.
    expect(made.map(({ periodEnd }) => new Date(periodEnd * 1000).getUTCDate())).toStrictEqual(
      made.map(() => 1),
    );
    return made.map(({ cancelAtPeriodEnd }) => cancelAtPeriodEnd);
  };
  const subscribing = { BILLING_A_AUTO_SUBSCRIBE: 'true' };
  expect(await subscriptions({})).toStrictEqual([]);
  expect(await subscriptions(subscribing)).toStrictEqual([false]);
  expect(await subscriptions({ ...subscribing, BILLING_A_CANCEL_ON_REMOVE: 'true' })).toStrictEqual(
    [true],
  );
});

async function metronomeOf(change: Environment = {}) {
  const metronome = stored(await startFakeMetronome({ apiToken: 'token' }));
  await fetch(`${metronome.url}/v1/contract-pricing/rate-cards/create`, {
    method: 'POST',
    headers: { authorization: 'Bearer token', 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Standard', aliases: [{ name: 'standard' }] }),
  });
  const { destination } = destinationOf({
    ADAPTERS: 'billing_b',
    BILLING_B_API_BASE: metronome.url,
    BILLING_B_API_TOKEN: 'token',
    ...change,
  });
  return { metronome, destination };
}

test('BILLING_B_API_BASE, BILLING_B_API_TOKEN and BILLING_B_RATE_CARD: the address and the token of its API, and whether there are contracts', async () => {
  const without = await metronomeOf();
  await ready(without.destination);
  expect(without.metronome.state.metrics.length).toBeGreaterThan(0);
  expect(without.metronome.state.contracts).toStrictEqual([]);
  const changed = await metronomeOf({ BILLING_B_RATE_CARD: 'standard' });
  await ready(changed.destination);
  expect(changed.metronome.state.contracts).toHaveLength(1);
  const refused = await metronomeOf({ BILLING_B_API_TOKEN: 'another' });
  expect(await refused.destination.bootstrap(METRICS, signal)).not.toStrictEqual(DONE);
});

test('BILLING_B_STRIPE_LINK and BILLING_B_STRIPE_COLLECTION_METHOD: the Stripe customer is made and linked, and charged so', async () => {
  const linked = async (change: Environment) => {
    const stripe = stored(await startFakeStripe({ apiKey: 'sk_test_key' }));
    const { metronome, destination } = await metronomeOf({
      BILLING_A_API_BASE: stripe.url,
      BILLING_A_API_KEY: 'sk_test_key',
      BILLING_B_RATE_CARD: 'standard',
      ...change,
    });
    await ready(destination);
    const methods = metronome.state.billingProviders.map(
      ({ configuration }) => configuration['stripe_collection_method'],
    );
    return [stripe.state.customers.size, ...methods];
  };
  const link = { BILLING_B_STRIPE_LINK: 'true' };
  expect(await linked({})).toStrictEqual([0]);
  expect(await linked(link)).toStrictEqual([1, 'charge_automatically']);
  const invoiced = { ...link, BILLING_B_STRIPE_COLLECTION_METHOD: 'send_invoice' };
  expect(await linked(invoiced)).toStrictEqual([1, 'send_invoice']);
});
