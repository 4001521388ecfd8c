import { describe, expect, test } from 'vitest';
import { loadHeldUsage } from '../billing/held-usage/testing/held-usage.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { override } from '../model/override.ts';
import {
  API_TOKEN,
  INGEST_TOKEN,
  quietDiscovery,
  startTestServer,
  type TestServer,
  testTenant,
} from './testing/test-server.ts';
import type { HeldView } from './views.ts';

const event = {
  tenant: 'acm',
  metric: 'tokens_used',
  quantity: 1500,
  window_start: '2026-11-21T09:00:00Z',
  window_end: '2026-11-21T09:01:00Z',
};
const environment = { 'spec.ingest.unknownTenants': '' };
const views = { discovery: quietDiscovery({ tenants: () => [testTenant('acme')] }) };

const push = (server: TestServer, body: unknown) =>
  server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body });
const get = (server: TestServer, path: string) => server.call('GET', path, { token: API_TOKEN });
const post = (server: TestServer, path: string, body?: unknown) =>
  server.call('POST', path, { token: API_TOKEN, body });

describe('a typo in a tenant’s name bills no stranger', () => {
  test('by default it is held: durable, answered as held, shown, not in the ledger', async () => {
    await using server = await startTestServer({ environment, views });
    const answer = await push(server, [event, { ...event, tenant: 'acme' }]);
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({ accepted: 2, held: [{ tenant: 'acm', events: 1 }] });
    expect(server.ledger.head()).toBe(1);
    expect((await push(server, event)).json).toMatchObject({
      accepted: 0,
      duplicates: 1,
      held: [{ tenant: 'acm', events: 1 }],
    });
    const list = await get(server, '/api/v1/held-tenants');
    expect(list.json).toMatchObject({ held_tenants: [{ tenant: 'acm', events: 1 }] });
    const one = await get(server, '/api/v1/held-tenants/acm');
    expect(one.json).toMatchObject({
      sums: [{ metric: 'tokens_used', unit: 'tokens', events: 1, quantity: 1500 }],
      first_events: [{ event: { tenant: 'acm' } }],
    });
    expect((await get(server, '/api/v1/status')).json).toMatchObject({ held_events: 1 });
  });

  test('one call gives it to the tenant that was meant', async () => {
    await using server = await startTestServer({ environment, views });
    await push(server, event);
    const path = '/api/v1/held-tenants/acm/rename';
    const refused = await post(server, path, { to: 'acmee' });
    expect([refused.status, refused.text]).toStrictEqual([
      409,
      expect.stringContaining('unknown tenant'),
    ]);
    expect((await post(server, path, { name: 'acme' })).status).toBe(400);
    const { json } = await post(server, path, { to: 'acme' });
    expect(json).toStrictEqual({ tenant: 'acm', to: 'acme', events: 1, duplicates: 0 });
    const usage = await get(server, '/api/v1/usage');
    expect(usage.json).toMatchObject({ rows: [{ tenant: 'acme', quantity: 1500 }] });
    expect((await post(server, path, { to: 'acme' })).status).toBe(404);
    expect(server.log.join()).toContain('an operator renamed held usage');
  });

  test('one call lets it go on, or gives it up', async () => {
    await using server = await startTestServer({ environment, views });
    await push(server, [event, { ...event, tenant: 'junk' }]);
    const released = await post(server, '/api/v1/held-tenants/acm/release');
    expect(released.json).toStrictEqual({ tenant: 'acm', events: 1, duplicates: 0 });
    const discarded = await post(server, '/api/v1/held-tenants/junk/discard');
    expect(discarded.json).toStrictEqual({ tenant: 'junk', events: 1, duplicates: 0 });
    expect(server.ledger.head()).toBe(1);
    expect((await get(server, '/api/v1/held-tenants')).json).toStrictEqual({ held_tenants: [] });
  });

  test('unknownTenants: create makes customers at once, as before', async () => {
    const create = { 'spec.ingest.unknownTenants': 'create' };
    await using server = await startTestServer({ environment: create, views });
    const { json } = await push(server, event);
    expect(json).not.toHaveProperty('held');
    expect(server.ledger.head()).toBe(1);
  });

  test('when too much is held the pusher must try again, and nothing is half done', async () => {
    const held = override<HeldView>(await loadHeldUsage(createMemoryLedger()), {
      push: async () => ({ kind: 'too-much-held' }) as const,
    });
    await using server = await startTestServer({ environment, views: { ...views, held } });
    const answer = await push(server, event);
    expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([503, '60']);
  });

  test('a token for pushing decides nothing', async () => {
    await using server = await startTestServer({ environment, views });
    await push(server, event);
    for (const word of ['release', 'discard', 'rename']) {
      const path = `/api/v1/held-tenants/acm/${word}`;
      const answer = await server.call('POST', path, { token: INGEST_TOKEN, body: { to: 'acme' } });
      expect(answer.status).toBe(403);
    }
    expect(server.ledger.head()).toBe(0);
  });
});
