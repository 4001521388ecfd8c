import { describe, expect, test } from 'vitest';
import type { CustomerAnswer } from '../destinations/destination.ts';
import {
  lagoMessage,
  metronomeMessage,
  type SignedMessage,
  stripeMessage,
  subscriptionEvent,
  WEBHOOK_SECRETS,
} from '../billing/enforcement/testing/alerts.ts';
import { createOfflineEnforcement } from '../billing/enforcement/testing/offline-enforcement.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import {
  API_TOKEN,
  NOW,
  startTestServer,
  testClock,
  testSettings,
  testTenant,
  quietDiscovery,
} from './testing/test-server.ts';

interface Options {
  readonly environment?: Readonly<Record<string, string>>;
  readonly ledger?: Ledger;
  readonly known?: () => boolean;
  readonly tenantsOf?: () => Promise<CustomerAnswer>;
}

const ACME = testTenant('acme', { customerIds: { stripe: 'cus_1', metronome: 'uuid-1' } });

async function start(options: Options = {}) {
  const environment = { ...WEBHOOK_SECRETS, ...options.environment };
  const ledger = options.ledger ?? createMemoryLedger();
  const settings = testSettings(environment);
  const enforcement = await createOfflineEnforcement({
    ledger,
    clock: testClock,
    settings: () => settings,
    tenants: () => [ACME],
    known: options.known,
    queryCustomer: options.tenantsOf,
  });
  const discovery = quietDiscovery({
    known: options.known ?? (() => true),
    tenants: () => [ACME],
  });
  const server = await startTestServer({ environment, ledger, views: { enforcement, discovery } });
  const post = (path: string, { headers, body }: SignedMessage, type = 'application/json') =>
    server.call('POST', path, { headers: { ...headers, 'content-type': type }, body });
  return { server, post, [Symbol.asyncDispose]: () => server.close() };
}

const unpaid = (id = 'evt_1') => stripeMessage(subscriptionEvent(id, 'unpaid', NOW), NOW);
const spend = metronomeMessage(
  { id: 'm1', type: 'alerts.spend_threshold_reached', properties: { customer_id: 'uuid-1' } },
  NOW,
);
const alert = lagoMessage('k1', 'alert.triggered', 'triggered_alert', {
  external_customer_id: 'acme',
});

describe('a message of a billing system', () => {
  test.each([
    ['/webhooks/billing_a', unpaid(), 'suspended'],
    ['/webhooks/stripe', unpaid(), 'suspended'],
    ['/webhooks/billing_b', spend, 'warning'],
    ['/webhooks/metronome', spend, 'warning'],
    ['/webhooks/billing_c', alert, 'warning'],
    ['/webhooks/lago', alert, 'warning'],
  ])('is taken in at %s, without any token', async (path, message, state) => {
    await using own = await start();
    const answer = await own.post(path, message);
    expect(answer.status).toBe(200);
    expect(answer.json).toStrictEqual({ applied: true, tenant: 'acme', state, tenants: ['acme'] });
  });

  test('is answered with 200 and without effect when it comes again, is of no concern or unknown', async () => {
    await using own = await start();
    const apply = () => own.post('/webhooks/stripe', unpaid());
    await apply();
    expect((await apply()).json).toStrictEqual({
      applied: false,
      reason: 'already received: evt_1',
    });
    const other = subscriptionEvent('evt_2', 'unpaid', NOW, { customer: 'cus_other' });
    const unknown = await own.post('/webhooks/stripe', stripeMessage(other, NOW));
    expect([unknown.status, unknown.json]).toStrictEqual([
      200,
      { applied: false, reason: 'no tenant of this operator is this customer' },
    ]);
    const incomplete = subscriptionEvent('evt_3', 'incomplete', NOW);
    const irrelevant = await own.post('/webhooks/stripe', stripeMessage(incomplete, NOW));
    expect(irrelevant.json).toStrictEqual({
      applied: false,
      reason: 'no state and no rule for customer.subscription.updated',
    });
  });

  test('may name a character set, and is verified as it came, byte by byte', async () => {
    await using own = await start();
    const object = { object: 'subscription', id: 'sub_1', customer: 'cus_1', status: 'unpaid' };
    const event = { id: 'évt', type: 'customer.subscription.updated', at: NOW, object };
    const message = stripeMessage(event, NOW);
    const answer = await own.post('/webhooks/stripe', message, 'application/json; charset=utf-8');
    expect(answer.json).toMatchObject({ applied: true });
  });

  test('is accepted with any of several secrets while they are rotated', async () => {
    await using own = await start({
      environment: { STRIPE_WEBHOOK_SECRET: 'whsec_new,whsec_old' },
    });
    for (const secret of ['whsec_new', 'whsec_old']) {
      const message = stripeMessage(subscriptionEvent(secret, 'unpaid', NOW), NOW, secret);
      expect((await own.post('/webhooks/stripe', message)).status).toBe(200);
    }
  });

  test('is to be sent again while nothing can be recorded, with the time to wait', async () => {
    const full: Ledger = {
      ...createMemoryLedger(),
      writeRecords: async () => ({ kind: 'failed', cause: 'full', message: 'no room' }),
    };
    for (const options of [{ ledger: full }, { known: () => false }]) {
      await using own = await start(options);
      const answer = await own.post('/webhooks/stripe', unpaid());
      expect(answer.status).toBe(503);
      expect(answer.headers.get('retry-after')).toBe('5');
    }
  });
});

describe('what is not a message of a billing system', () => {
  const forged = stripeMessage(subscriptionEvent('evt_1', 'unpaid', NOW), NOW, 'whsec_guess');
  const old = stripeMessage(subscriptionEvent('evt_1', 'unpaid', NOW), NOW - 301_000);
  const early = stripeMessage(subscriptionEvent('evt_1', 'unpaid', NOW), NOW + 301_000);

  test('is refused with one text, whether forged, replayed or changed; nothing is recorded', async () => {
    await using own = await start();
    const changed = { ...unpaid(), body: unpaid().body.replace('cus_1', 'cus_2') };
    const texts = new Set<string>();
    for (const message of [forged, old, early, changed]) {
      const answer = await own.post('/webhooks/stripe', message);
      expect(answer.status).toBe(401);
      texts.add(answer.text);
    }
    expect([...texts]).toStrictEqual([
      JSON.stringify({
        error:
          'signature not accepted: stripe: check the secret in BILLING_A_WEBHOOK_SECRET (or STRIPE_WEBHOOK_SECRET) and both clocks',
      }),
    ]);
    const states = await own.server.call('GET', '/api/v1/billing-states', { token: API_TOKEN });
    expect(states.json).toStrictEqual({ mode: 'observe', states: [] });
  });

  test('gets an answer that says what is missing', async () => {
    await using own = await start();
    const unsigned = await own.post('/webhooks/stripe', { headers: {}, body: unpaid().body });
    expect([unsigned.status, unsigned.json]).toStrictEqual([
      400,
      { error: 'missing: Stripe-Signature header: send it as stripe does' },
    ]);
    const wrongWay = await own.post('/webhooks/metronome', unpaid());
    expect(wrongWay.status).toBe(400);
  });

  test('of another type, too large or by another method is refused as everywhere', async () => {
    await using own = await start();
    expect((await own.post('/webhooks/stripe', unpaid(), 'text/plain')).status).toBe(415);
    const large = { ...unpaid(), body: ' '.repeat(1024 * 1024 + 1) };
    expect((await own.post('/webhooks/stripe', large)).status).toBe(413);
    expect((await own.server.call('GET', '/webhooks/stripe')).status).toBe(405);
    expect((await own.post('/webhooks/paypal', unpaid())).status).toBe(404);
    expect((await own.post('/webhooks/stripe?a=b', unpaid())).status).toBe(400);
  });

  test('too often from one address is held back, and whoever signs rightly is still let in', async () => {
    await using own = await start();
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 35; attempt += 1) {
      statuses.push((await own.post('/webhooks/stripe', forged)).status);
    }
    expect(statuses.slice(0, 30).every((status) => status === 401)).toBe(true);
    expect(statuses.slice(30).every((status) => status === 429)).toBe(true);
    expect((await own.post('/webhooks/stripe', unpaid())).status).toBe(200);
    const lines = own.server.log.filter((line) => line.includes('refused a stripe message'));
    expect(lines).toHaveLength(1);
  });

  test('gets to see no secret, and neither does the log', async () => {
    await using own = await start();
    for (const message of [forged, old, unpaid(), { headers: {}, body: '{' }]) {
      await own.post('/webhooks/stripe', message);
    }
    const shown = [...own.server.answers, ...own.server.log].join('\n');
    for (const secret of Object.values(WEBHOOK_SECRETS)) expect(shown).not.toContain(secret);
  });
});

test.each([
  ['STRIPE_WEBHOOK_SECRET', '/webhooks/billing_a', unpaid(), 'BILLING_A_WEBHOOK_SECRET'],
  ['METRONOME_WEBHOOK_SECRET', '/webhooks/billing_b', spend, 'BILLING_B_WEBHOOK_SECRET'],
  ['LAGO_WEBHOOK_SECRET', '/webhooks/billing_c', alert, 'BILLING_C_WEBHOOK_SECRET'],
])(
  'a webhook without %s does not exist, and says how to enable it',
  async (name, path, message, known) => {
    await using own = await start({ environment: { [name]: '' } });
    const answer = await own.post(path, message);
    expect([answer.status, answer.json]).toStrictEqual([
      404,
      { error: `not enabled: ${path}: set ${known} (or ${name})` },
    ]);
  },
);
