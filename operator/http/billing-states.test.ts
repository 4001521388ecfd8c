import { describe, expect, test } from 'vitest';
import {
  asRequest,
  stripeMessage,
  subscriptionEvent,
  WEBHOOK_SECRETS,
} from '../billing/enforcement/testing/alerts.ts';
import { createOfflineEnforcement } from '../billing/enforcement/testing/offline-enforcement.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import {
  API_TOKEN,
  INGEST_TOKEN,
  NOW,
  startTestServer,
  testClock,
  testSettings,
  testTenant,
  quietDiscovery,
} from './testing/test-server.ts';

const token = API_TOKEN;
const PATH = '/api/v1/billing-states';
const ACME = testTenant('acme', { customerIds: { stripe: 'cus_1' } });

async function start(environment: Readonly<Record<string, string>> = {}, ledger?: Ledger) {
  const all = { ...WEBHOOK_SECRETS, ...environment };
  const settings = testSettings(all);
  const enforcement = await createOfflineEnforcement({
    ledger: ledger ?? createMemoryLedger(),
    clock: testClock,
    settings: () => settings,
    tenants: () => [ACME],
  });
  const discovery = quietDiscovery({ tenants: () => [ACME, testTenant('b')] });
  const server = await startTestServer({ environment: all, views: { enforcement, discovery } });
  const say = (id: string, status: string, at = NOW) => {
    const message = stripeMessage(subscriptionEvent(id, status, at), NOW);
    return enforcement.receive('stripe', asRequest(message), new AbortController().signal);
  };
  const call: typeof server.call = (method, path, wish) => server.call(method, path, wish);
  return { say, call, [Symbol.asyncDispose]: () => server.close() };
}

const SOURCE = {
  source: 'stripe:subscription/sub_1',
  state: 'delinquent',
  reason: 'customer.subscription.updated: past_due',
  event_type: 'customer.subscription.updated',
  at: '2026-11-21T09:05:00Z',
};

test('the states are listed with where they come from, and each tenant shows its own', async () => {
  await using own = await start({ ENFORCEMENT_MODE: 'annotate' });
  await own.say('evt_1', 'past_due');
  expect((await own.call('GET', PATH, { token })).json).toStrictEqual({
    mode: 'annotate',
    states: [
      {
        tenant: 'acme',
        state: 'delinquent',
        manual: false,
        reason: SOURCE.reason,
        source: SOURCE.source,
        event_type: SOURCE.event_type,
        since: '2026-11-21T09:05:00Z',
        sources: [SOURCE],
      },
    ],
  });
  const { tenants } = (await own.call('GET', '/api/v1/tenants', { token })).json as {
    tenants: { id: string; billing_state: string }[];
  };
  expect(tenants.map((each) => [each.id, each.billing_state])).toStrictEqual([
    ['acme', 'delinquent'],
    ['b', 'active'],
  ]);
  const one = await own.call('GET', '/api/v1/tenants/acme', { token });
  expect(one.json).toMatchObject({ billing_state: 'delinquent' });
});

describe('a state set by hand', () => {
  test('wins until it is cleared, and what was reported meanwhile counts then', async () => {
    const ledger = createMemoryLedger();
    await using own = await start({}, ledger);
    const body = { state: 'suspended', reason: 'fraud\ncase 7' };
    const set = await own.call('PUT', `${PATH}/acme`, { token, body });
    expect([set.status, set.json]).toStrictEqual([
      200,
      {
        tenant: 'acme',
        state: 'suspended',
        manual: true,
        reason: 'fraud case 7',
        source: 'manual',
        event_type: 'manual',
        since: '2026-11-21T09:05:00Z',
        sources: [],
      },
    ]);
    expect(await own.say('evt_1', 'past_due')).toMatchObject({ state: 'suspended' });
    await using after = await start({}, ledger);
    const listed = await after.call('GET', PATH, { token });
    expect(listed.json).toMatchObject({ states: [{ state: 'suspended', manual: true }] });
    const cleared = await after.call('DELETE', `${PATH}/acme`, { token });
    expect(cleared.json).toMatchObject({ state: 'delinquent', manual: false, sources: [SOURCE] });
  });

  test('has a reason of its own when none is given, and clearing twice is no harm', async () => {
    await using own = await start();
    const set = await own.call('PUT', `${PATH}/b`, { token, body: { state: 'warning' } });
    expect(set.json).toMatchObject({ state: 'warning', reason: 'set by operator' });
    for (const _ of [1, 2]) {
      const cleared = await own.call('DELETE', `${PATH}/b`, { token });
      expect(cleared.json).toStrictEqual({
        tenant: 'b',
        state: 'active',
        manual: false,
        sources: [],
      });
    }
    const listed = await own.call('GET', PATH, { token });
    expect(listed.json).toStrictEqual({ mode: 'observe', states: [] });
  });

  test.each([
    [{ state: 'gone' }, 'not a billing state: state: "gone": use one of active, warning'],
    [{}, 'not a billing state'],
    ['[]', 'not an object: body: []: send'],
    [{ state: 'active', reason: 7 }, 'not a reason: reason: 7'],
    [{ state: 'active', reason: 'x'.repeat(257) }, 'not a reason'],
    ['{', 'not valid JSON'],
  ])('%j is refused', async (body, error) => {
    await using own = await start();
    const answer = await own.call('PUT', `${PATH}/acme`, { token, body });
    expect(answer.status).toBe(400);
    expect(answer.json).toMatchObject({ error: expect.stringContaining(error) });
  });

  test('of a tenant that nobody knows is a typing error', async () => {
    await using own = await start();
    const body = { state: 'suspended' };
    for (const [method, wish] of [
      ['PUT', { token, body }],
      ['DELETE', { token }],
    ] as const) {
      expect((await own.call(method, `${PATH}/acmee`, wish)).status).toBe(404);
    }
  });

  test('needs API_TOKEN, and where there is none nobody may change anything (accident 38)', async () => {
    await using own = await start();
    const body = { state: 'suspended' };
    expect((await own.call('PUT', `${PATH}/acme`, { body })).status).toBe(401);
    expect((await own.call('PUT', `${PATH}/acme`, { token: INGEST_TOKEN, body })).status).toBe(403);
    expect((await own.call('DELETE', `${PATH}/acme`)).status).toBe(401);
    await using open = await start({ API_TOKEN: '', INGEST_TOKEN: '' });
    expect((await open.call('PUT', `${PATH}/acme`, { body })).status).toBe(403);
    expect((await open.call('DELETE', `${PATH}/acme`)).status).toBe(403);
    expect((await open.call('GET', PATH)).status).toBe(200);
  });

  test('is not acknowledged when it cannot be stored', async () => {
    const full: Ledger = {
      ...createMemoryLedger(),
      writeRecords: async () => ({ kind: 'failed', cause: 'full', message: 'no room' }),
    };
    await using own = await start({}, full);
    const answer = await own.call('PUT', `${PATH}/acme`, { token, body: { state: 'suspended' } });
    expect(answer.status).toBe(503);
    expect((await own.call('GET', PATH, { token })).json).toMatchObject({ states: [] });
  });
});
