import { afterEach, expect, test, vi } from 'vitest';
import type { StripeRules } from '../../e2e/fakes/stripe/state.ts';
import { type FakeStripe, startFakeStripe } from '../../e2e/fakes/stripe/stripe.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import type { StripeSettings } from '../destinations/stripe/settings.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../ledger/testing/events.ts';
import { correctionOf } from '../model/correction.ts';
import type { UsageEvent } from '../model/event.ts';
import { createFastClock } from './testing/fast-clock.ts';
import { tenantNamed } from './testing/harness.ts';
import { type LiveDelivery, startLiveDelivery } from './testing/live-delivery.ts';
import { stripeOptions } from './testing/vendor-options.ts';

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const EVENTS = '/v1/billing/meter_events';
const AUTHORIZED = { authorization: 'Bearer sk_test_key' };
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** Stripe with its time, and the ledger: what outlives the operator. */
interface StripeEstate {
  readonly stripe: FakeStripe;
  readonly ledger: Ledger;
  readonly time: { now: () => number; aheadMs: number };
  /** While it says so, no key is good enough. */
  readonly lock: { isOn: () => boolean };
}

async function createEstate(rules: Partial<StripeRules> = {}): Promise<StripeEstate> {
  const time = { now: () => TEST_WINDOW_START, aheadMs: 0 };
  const lock = { isOn: () => false };
  const stripe = await startFakeStripe({
    apiKey: 'sk_test_key',
    searchLagMs: MINUTE_MS,
    lacks: () => (lock.isOn() ? 'rak_all' : undefined),
    now: () => time.now(),
    rules,
  });
  closers.push(() => stripe.close());
  return { stripe, ledger: createMemoryLedger(), time, lock };
}

/** An operator that starts at a time. */
async function live(
  { stripe, ledger, time }: StripeEstate,
  start: number,
  change: Partial<StripeSettings> = {},
  tenants: readonly Tenant[] = [],
): Promise<LiveDelivery> {
  const fast = createFastClock(start);
  const clock = {
    ...fast,
    now: () => fast.now() + time.aheadMs,
    monotonic: () => fast.monotonic() + time.aheadMs,
  };
  time.now = () => clock.now();
  const settings: DestinationSettings = {
    name: 'stripe',
    type: 'stripe',
    suspend: false,
    startFrom: 'earliest',
    options: stripeOptions(stripe.url, { autoSubscribe: false, ...change }),
  };
  const known = new Map(tenants.map((tenant) => [tenant.id, tenant]));
  const operator = await startLiveDelivery({
    ledger,
    clock,
    tenants: known,
    destinations: [settings],
  });
  closers.push(() => operator.stop());
  return operator;
}

async function drained({ delivery }: LiveDelivery, ledger: Ledger): Promise<void> {
  await vi.waitFor(
    () => {
      const status = delivery.status('stripe');
      expect(status?.cursor).toBe(ledger.head());
      expect(status?.parked).toBe(0);
    },
    { timeout: 20_000, interval: 5 },
  );
}

/** One event for each node of a tenant, all of one SKU. */
function nodes(tenant: string, count: number, window = 0, first = 0): UsageEvent[] {
  return Array.from({ length: count }, (_, index) => ({
    ...testEvent({
      tenant,
      id: `${tenant}:${window}:${first + index}`,
      windowStart: TEST_WINDOW_START + window * MINUTE_MS,
      quantity: `0.${String(133_333_333 + index)}`,
      sku: 'H100',
    }),
    metric: 'tenant_gpu_hours',
    resource_id: `node-${first + index}`,
  }));
}

function taken({ stripe }: StripeEstate): string[] {
  return stripe.state.events.map(({ identifier }) => identifier);
}

test('a correction is taken off what Stripe counts, with a long quantity too', async () => {
  const estate = await createEstate();
  const [mistaken, kept] = nodes('a', 2);
  if (mistaken === undefined || kept === undefined) throw new Error('no event');
  await estate.ledger.append({ events: [mistaken, kept] });
  const operator = await live(estate, TEST_WINDOW_START + 3_600_000);
  await drained(operator, estate.ledger);
  const note = { reason: 'pushed twice', author: 'ann' };
  const at = '2026-11-21T10:00:00Z';
  const corrected = { event: mistaken, sequence: 1 };
  const undone = correctionOf(corrected, 1, -133_333_333n, at, note);
  const large = correctionOf(corrected, 2, -1_234_567_890_123_456_789n, at, note);
  await estate.ledger.append({ events: [undone, large] });
  await drained(operator, estate.ledger);
  expect(taken(estate)).toStrictEqual([mistaken.id, kept.id, undone.id, large.id]);
  expect(operator.delivery.status('stripe')).toMatchObject({ deadLetters: 0 });
});

test('resets, lost answers, stored failures and rate limits: Stripe counts exactly the ledger', async () => {
  const estate = await createEstate();
  const tenants = ['a', 'b', 'c'];
  const events = Array.from({ length: 30 }, (_, window) =>
    tenants.flatMap((tenant) => nodes(tenant, 2, window)),
  ).flat();
  await estate.ledger.append({ events });
  const { misbehaviours, state } = estate.stripe;
  misbehaviours.add({ kind: 'commit-then-status', status: 500, every: 9, times: 9, path: EVENTS });
  misbehaviours.add({ kind: 'commit-then-reset', every: 7, times: 9 });
  misbehaviours.add({ kind: 'status', status: 429, every: 11, times: 9 });
  misbehaviours.add({ kind: 'reset', every: 5, times: 9 });
  const operator = await live(estate, TEST_WINDOW_START + 3_600_000);
  await drained(operator, estate.ledger);
  expect(taken(estate).toSorted()).toStrictEqual(events.map(({ id }) => id).toSorted());
  expect(state.customers.size).toBe(3);
  expect(operator.delivery.status('stripe')).toMatchObject({ deadLetters: 0, ready: true });
  const from = Date.UTC(2026, 10, 21);
  const query = { from, to: from + DAY_MS };
  const { signal } = new AbortController();
  const outcome = await operator.delivery.reconcile('stripe', query, signal);
  if (outcome.kind !== 'reconciled') throw new Error(outcome.kind);
  expect(outcome.rows.map(({ difference }) => difference)).toStrictEqual(['0', '0', '0']);
});

test('an answer that is lost for days: the sum shows which of the nodes of one SKU were counted', async () => {
  const estate = await createEstate();
  const passed = nodes('a', 5);
  await estate.ledger.append({ events: passed });
  const first = await live(estate, TEST_WINDOW_START + 2 * MINUTE_MS);
  await drained(first, estate.ledger);
  // Of seven more the fourth is taken without a word, and then nothing is.
  estate.stripe.misbehaviours.add({ kind: 'commit-then-reset', every: 4, times: 1, path: EVENTS });
  estate.lock.isOn = () => taken(estate).length >= 9;
  const rest = nodes('a', 7, 0, 5);
  await estate.ledger.append({ events: rest });
  await vi.waitFor(() => expect(first.delivery.status('stripe')?.blocked).toContain('rak_all'));
  await first.stop();
  expect(taken(estate)).toHaveLength(9);
  estate.lock.isOn = () => false;

  const second = await live(estate, TEST_WINDOW_START + 2 * DAY_MS);
  await drained(second, estate.ledger);
  expect(taken(estate)).toStrictEqual([...passed, ...rest].map(({ id }) => id));
  expect(second.delivery.status('stripe')).toMatchObject({ deadLetters: 0 });
});

/** Makes a price of a meter, tagged with a plan. */
async function price(
  { stripe }: StripeEstate,
  meter: string,
  plan = 'tenant-standard',
): Promise<void> {
  await fetch(`${stripe.url}/v1/prices`, {
    method: 'POST',
    headers: AUTHORIZED,
    body: new URLSearchParams({
      currency: 'usd',
      'product_data[name]': meter,
      'recurring[interval]': 'month',
      'recurring[usage_type]': 'metered',
      'recurring[meter]': meter,
      'metadata[vbilling_plan]': plan,
    }),
  });
}

/** Waits until the subscriptions that run are of these plans. */
async function plansAre({ stripe }: StripeEstate, plans: readonly string[]): Promise<void> {
  await vi.waitFor(
    () => {
      const running = [...stripe.state.subscriptions.values()].filter(
        ({ status }) => status === 'active',
      );
      const found = running.map(({ metadata }) => String(metadata['vbilling_plan']));
      expect(found.toSorted()).toStrictEqual(plans);
    },
    { timeout: 20_000, interval: 5 },
  );
}

test.each([
  { mode: 'flexible' },
  { mode: 'flexible', backdatedUsage: 'first-invoice' },
  { mode: 'flexible', cancelNeedsProrate: true },
  { mode: 'classic' },
] as const)(
  'every event of a subscribed tenant is charged once, backfilled ones and those of a new plan too: %j',
  async (rules) => {
    const estate = await createEstate(rules);
    const start = TEST_WINDOW_START + 10 * MINUTE_MS;
    const subscribing = { autoSubscribe: true };
    const first = await live(estate, start, subscribing);
    await vi.waitFor(() => expect(estate.stripe.state.meters.size).toBe(10), { timeout: 10_000 });
    await estate.ledger.append({ events: nodes('a', 1) });
    await drained(first, estate.ledger);
    await first.stop();
    for (const plan of ['tenant-standard', 'gold']) {
      for (const { id } of estate.stripe.state.meters.values()) await price(estate, id, plan);
    }
    const second = await live(estate, start + 20 * MINUTE_MS, subscribing, [tenantNamed('a')]);
    await estate.ledger.append({ events: [...nodes('a', 3, 1), ...nodes('b', 3, 25)] });
    await drained(second, estate.ledger);
    await plansAre(estate, ['tenant-standard', 'tenant-standard']);
    await second.stop();
    const gold = tenantNamed('a', { plan: 'gold' });
    const third = await live(estate, start + DAY_MS, subscribing, [gold]);
    await estate.ledger.append({ events: nodes('a', 3, 24 * 60 + 5) });
    await drained(third, estate.ledger);
    await plansAre(estate, ['gold', 'tenant-standard']);
    await third.stop();
    estate.stripe.turnTo(TEST_WINDOW_START + 60 * DAY_MS);
    const { events } = estate.stripe.account();
    expect(events).toHaveLength(10);
    expect(events.map(({ lines, fate }) => [lines, fate.kind])).toStrictEqual(
      events.map(() => [1, 'invoiced']),
    );
  },
);

test('a price for usage that goes on bills what came before it, and parks nobody', async () => {
  const estate = await createEstate({ backdatedUsage: 'first-invoice' });
  const { stripe, ledger } = estate;
  const start = TEST_WINDOW_START + 10 * MINUTE_MS;
  const operator = await live(estate, start, { autoSubscribe: true }, [tenantNamed('a')]);
  await vi.waitFor(() => expect(stripe.state.meters.size).toBe(10), { timeout: 10_000 });
  const [first] = stripe.state.meters.keys();
  await price(estate, first ?? '');
  estate.time.aheadMs += 10 * MINUTE_MS;
  await ledger.append({ events: nodes('a', 2, 5) });
  await drained(operator, ledger);
  const meters = [...stripe.state.meters.values()];
  const h100 = meters.find(({ event_name }) => event_name.endsWith('h100'));
  await price(estate, h100?.id ?? '');
  for (const window of [30, 31, 32, 60]) {
    estate.time.aheadMs += 10 * MINUTE_MS;
    await ledger.append({ events: nodes('a', 2, window) });
    await drained(operator, ledger);
  }
  const status = operator.delivery.status('stripe');
  await operator.stop();
  expect(status).toMatchObject({ parkedTenants: [], deadLetters: 0 });
  stripe.turnTo(start + 60 * DAY_MS);
  const { events } = stripe.account();
  expect(events).toHaveLength(10);
  expect(events.map(({ lines, fate }) => [lines, fate.kind])).toStrictEqual(
    events.map(() => [1, 'invoiced']),
  );
});
