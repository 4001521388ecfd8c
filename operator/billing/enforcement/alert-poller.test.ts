import { afterEach, beforeEach, expect, test } from 'vitest';
import type { FakeStripe } from '../../../e2e/fakes/stripe/stripe.ts';
import {
  createStripeWorld,
  settle,
  type StripeWorld,
} from '../../destinations/stripe/testing/stripe-world.ts';
import { DESTINATIONS } from '../../destinations/registry.ts';
import { testTenant } from '../../destinations/testing/context.ts';
import { loadEnvironment } from '../../settings/load-environment.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { Tenant } from '../../model/tenant.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import { Inbox } from './inbox.ts';
import { AlertPoller } from './alert-poller.ts';
import { createCustomers } from './states/customers.ts';
import { PinnedKeys } from './states/pinned-keys.ts';
import { SeenAlerts } from './states/seen-alerts.ts';
import { StateStore } from './states/state-store.ts';
import { effectiveState } from './states/tenant-record.ts';
import { createOfflineEnforcement } from './testing/offline-enforcement.ts';
import { asRequest, stripeMessage, subscriptionEvent, WEBHOOK_SECRETS } from './testing/alerts.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;
const METER = 'tenant_gpu_hours';
const { signal } = new AbortController();
const ACME = testTenant({ id: 'acme' });

let world: StripeWorld;
let lacks: string | undefined;

beforeEach(async () => {
  lacks = undefined;
  const options = {
    lacks: (_: string, path: string) =>
      lacks !== undefined && path.startsWith(lacks) ? 'rak_x' : undefined,
  };
  world = await createStripeWorld(options, { autoSubscribe: true });
  await world.ready();
  await world.price(METER);
  world.time.now += 5 * MINUTE;
  await settle(world.destination, ACME);
});

afterEach(() => world.close());

/** Enforcement's memory, with Stripe to ask. */
async function enforcement() {
  const ledger = createMemoryLedger();
  const store = new StateStore(ledger);
  const clock = { ...systemClock, now: () => world.time.now };
  const logger = createMemoryLogger();
  const tenants: readonly Tenant[] = [ACME];
  const customers = createCustomers({
    ledger,
    tenants: () => tenants,
    hasState: (id) => store.find(id) !== undefined,
    query: (provider, customer, until) =>
      world.destination.alerts.tenantsOf(provider, customer, until),
  });
  const loaded = loadEnvironment(WEBHOOK_SECRETS, DESTINATIONS);
  if (loaded.kind !== 'loaded') throw new Error('environment');
  const written: (readonly string[])[] = [];
  const inbox = new Inbox({
    settings: () => loaded.settings.enforcement,
    states: store,
    seen: new SeenAlerts(ledger),
    customers,
    keys: new PinnedKeys({
      query: async () => ({ kind: 'failed', reason: 'nobody to query' }),
      destinations: () => [],
      clock,
      logger,
    }),
    report: async () => ({ kind: 'written' }),
    known: () => true,
    onChange: (ids) => written.push(ids),
    clock,
    logger,
  });
  const watch = new AlertPoller({
    query: async (requested, until) => {
      const outcome = await world.destination.alerts.current(requested.get('stripe') ?? [], until);
      return outcome === undefined ? [] : [{ destination: 'stripe', outcome }];
    },
    providers: () => ['stripe'],
    states: store,
    receive: (alert, until) => inbox.receivePolled(alert, until),
    clock,
    logger,
  });
  const poll = async (): Promise<string> => {
    await watch.poll(signal);
    const record = store.find('acme');
    return record === undefined ? 'unheard of' : effectiveState(record).state;
  };
  const post = (status: string) => {
    const event = subscriptionEvent(`evt_${status}`, status, world.time.now, {
      customer: subscription().customer,
      subscription: subscription().id,
    });
    return inbox.receive('stripe', asRequest(stripeMessage(event, world.time.now)), signal);
  };
  return { look: poll, post, written, logger };
}

/** The one of the tenant. */
function subscription() {
  const all = [...world.stripe.state.subscriptions.values()];
  const found = all.findLast(({ metadata }) => metadata['vbilling_tenant_id'] === 'acme');
  if (found === undefined) throw new Error('no subscription');
  return found;
}

/** A final invoice of the tenant's subscription. */
function invoice({ state }: FakeStripe, change: Partial<FakeStripe['state']['invoices'][number]>) {
  const { id, customer, currency } = subscription();
  const at = Math.floor(world.time.now / 1000);
  state.invoices.push({
    id: `in_${state.invoices.length + 1}`,
    customer,
    currency,
    subscription: id,
    reason: 'subscription_cycle',
    created: at,
    periodStart: at,
    periodEnd: at,
    status: 'open',
    finalizesAt: undefined,
    finalizedAt: at,
    collects: true,
    granted: new Map(),
    balance: 0,
    attempts: 0,
    dueAt: undefined,
    lines: [],
    ...change,
  });
}

test.each([
  ['past_due', 'delinquent'],
  ['unpaid', 'suspended'],
] as const)(
  'an alert that a subscription is %s, and that never came, spares nobody',
  async (status, state) => {
    const { look: poll, written } = await enforcement();
    expect(await poll()).toBe('unheard of');
    subscription().status = status;
    expect(await poll()).toBe(state);
    world.time.now += 5 * MINUTE;
    expect(await poll()).toBe(state);
    expect(written).toStrictEqual([['acme']]);
  },
);

test('an alert that a customer has paid, and that never came, suspends nobody', async () => {
  const { look: poll, post } = await enforcement();
  await post('unpaid');
  world.time.now += MINUTE;
  expect(await poll()).toBe('active');
});

test('an invoice that is overdue is found, and one that is made void or paid settles it', async () => {
  const { look: poll } = await enforcement();
  invoice(world.stripe, { attempts: 1 });
  expect(await poll()).toBe('delinquent');
  world.time.now += MINUTE;
  for (const one of world.stripe.state.invoices) one.status = 'void';
  expect(await poll()).toBe('active');
  world.time.now += MINUTE;
  invoice(world.stripe, { subscription: null, dueAt: Math.floor((world.time.now - DAY) / 1000) });
  expect(await poll()).toBe('delinquent');
  world.time.now += MINUTE;
  for (const one of world.stripe.state.invoices) one.status = 'paid';
  expect(await poll()).toBe('active');
});

test('an invoice that is open and not due yet is nobody’s debt', async () => {
  const { look: poll } = await enforcement();
  invoice(world.stripe, { dueAt: Math.floor((world.time.now + DAY) / 1000) });
  invoice(world.stripe, { attempts: 0 });
  expect(await poll()).toBe('unheard of');
});

test('a subscription that a change of plan has ended suspends a tenant whose next one was never seen', async () => {
  const { look: poll, post } = await enforcement();
  await post('canceled');
  const old = subscription();
  world.time.now += MINUTE;
  await world.price(METER, { plan: 'gold' });
  world.time.now += 5 * MINUTE;
  await settle(world.destination, { ...ACME, plan: 'gold' });
  expect(subscription().id).not.toBe(old.id);
  expect(await poll()).toBe('active');
});

test('a subscription that was cancelled for want of payment suspends, although no alert arrived', async () => {
  const { look: poll, post } = await enforcement();
  await post('past_due');
  world.time.now += MINUTE;
  Object.assign(subscription(), { status: 'canceled', endedAt: world.time.now / 1000 });
  expect(await poll()).toBe('suspended');
});

test('customers of another account or mode stay as they are, and a key without the permission is reported once', async () => {
  const { look: poll, post, logger } = await enforcement();
  await post('past_due');
  world.stripe.state.subscriptions.clear();
  expect(await poll()).toBe('delinquent');
  lacks = '/v1/invoices';
  await poll();
  expect(await poll()).toBe('delinquent');
  expect(logger.lines.filter((line) => line.includes('Invoices: read'))).toHaveLength(1);
});

test('Lago is queried for the state of customers where no webhook and no secret is set up', async () => {
  const environment = {
    ADAPTERS: 'lago,stripe',
    LAGO_API_URL: 'http://lago.example.com',
    LAGO_API_KEY: 'key',
    STRIPE_API_KEY: 'sk_test_key',
  };
  const loaded = loadEnvironment(environment, DESTINATIONS);
  if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded));
  const reported = Promise.withResolvers<readonly string[]>();
  const enforcement = await createOfflineEnforcement({
    ledger: createMemoryLedger(),
    settings: () => loaded.settings,
    tenants: () => [ACME],
    clock: systemClock,
    queryCurrentAlerts: async (requested) => {
      reported.resolve([...requested.keys()]);
      return [];
    },
  });
  const stop = new AbortController();
  const running = enforcement.run(stop.signal);
  expect(await reported.promise).toStrictEqual(['lago']);
  stop.abort();
  await running;
});
