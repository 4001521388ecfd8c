import { describe, expect, test } from 'vitest';
import {
  API_TOKEN,
  INGEST_TOKEN,
  startTestServer,
  testSettings,
  testTenant,
  quietDiscovery,
} from './testing/test-server.ts';

const READS = [
  '/api/v1/status',
  '/api/v1/catalog',
  '/api/v1/events',
  '/api/v1/usage',
  '/api/v1/costs',
  '/api/v1/tenants',
  '/api/v1/destinations',
  '/api/v1/windows',
  '/api/v1/ledger/verify',
];
const CHANGES = [
  '/api/v1/destinations/noop/cursor',
  '/api/v1/destinations/noop/dead-letters/replay',
  '/api/v1/destinations/noop/dead-letters/discard',
];
const OPEN = ['/', '/healthz', '/readyz', '/leaderz', '/metrics'];

describe('with API_TOKEN and INGEST_TOKEN', () => {
  test('nothing below /api is shown without the token, not even what does not exist', async () => {
    await using server = await startTestServer();
    for (const path of [...READS, '/api/v1/nothing', '/api', '/api/v2']) {
      for (const token of [undefined, 'wrong', `${API_TOKEN}x`, API_TOKEN.slice(1), ' ']) {
        const answer = await server.call('GET', path, token === undefined ? {} : { token });
        expect([path, answer.status]).toStrictEqual([path, 401]);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      }
    }
    for (const path of CHANGES) expect((await server.call('POST', path)).status).toBe(401);
  });

  test('reading works with it, with and without the word Bearer', async () => {
    await using server = await startTestServer();
    for (const path of READS) {
      expect((await server.call('GET', path, { token: API_TOKEN })).status).toBe(200);
    }
    const headers = { authorization: API_TOKEN };
    expect((await server.call('GET', '/api/v1/status', { headers })).status).toBe(200);
  });

  test('behind a proxy that takes Authorization away: reading works with the other header, and a wrong one is none', async () => {
    await using server = await startTestServer();
    const requested = async (headers: Readonly<Record<string, string>>): Promise<number> =>
      (await server.call('GET', '/api/v1/status', { headers })).status;
    expect(await requested({ 'x-meterfeed-token': API_TOKEN })).toBe(200);
    expect(await requested({ 'x-meterfeed-token': 'wrong' })).toBe(401);
    expect(await requested({ 'x-meterfeed-token': '' })).toBe(401);
    expect(await requested({ 'x-meterfeed-token': INGEST_TOKEN })).toBe(403);
    expect(await requested({ authorization: 'Bearer wrong', 'x-meterfeed-token': API_TOKEN })).toBe(
      401,
    );
  });

  test('probes and metrics need none', async () => {
    await using server = await startTestServer();
    for (const path of OPEN) expect((await server.call('GET', path)).status).toBe(200);
  });

  test('a token for pushing cannot read or change, and one for reading cannot push', async () => {
    await using server = await startTestServer();
    for (const path of READS) {
      const answer = await server.call('GET', path, { token: INGEST_TOKEN });
      expect(answer.status).toBe(403);
      expect(answer.json).toStrictEqual({
        error: 'token not allowed here: INGEST_TOKEN: use a token of API_TOKEN',
      });
    }
    for (const path of CHANGES) {
      expect((await server.call('POST', path, { token: INGEST_TOKEN })).status).toBe(403);
    }
    const push = await server.call('POST', '/api/v1/events', { token: API_TOKEN, body: [] });
    expect(push.status).toBe(403);
  });

  test('a token in the address is no token', async () => {
    await using server = await startTestServer();
    const path = `/api/v1/status?token=${API_TOKEN}&access_token=${API_TOKEN}`;
    expect((await server.call('GET', path)).status).toBe(401);
  });

  test('rotation: both tokens work in the overlap, and the old one ends with the settings', async () => {
    await using server = await startTestServer({
      environment: { API_TOKEN: 'old-token-1,new-token-2' },
    });
    const status = async (token: string) =>
      (await server.call('GET', '/api/v1/status', { token })).status;
    expect([await status('old-token-1'), await status('new-token-2')]).toStrictEqual([200, 200]);
    server.settings = testSettings({ API_TOKEN: 'new-token-2' });
    expect([await status('old-token-1'), await status('new-token-2')]).toStrictEqual([401, 200]);
  });

  test('INGEST_TOKEN defaults to API_TOKEN', async () => {
    await using server = await startTestServer({ environment: { INGEST_TOKEN: '' } });
    const answer = await server.call('POST', '/api/v1/events', { token: API_TOKEN, body: {} });
    expect(answer.status).toBe(400);
  });

  test('the token is checked before the body is looked at', async () => {
    await using server = await startTestServer();
    const answer = await server.call('POST', '/api/v1/events', {
      body: '{broken',
      headers: { 'content-type': 'text/plain' },
    });
    expect(answer.status).toBe(401);
  });
});

describe('without API_TOKEN', () => {
  const environment = { API_TOKEN: '', INGEST_TOKEN: '' };

  test('reading is open, and every start and the status say so', async () => {
    await using server = await startTestServer({ environment });
    for (const path of READS) expect((await server.call('GET', path)).status).toBe(200);
    expect(server.log.join('\n')).toContain('warn [http] API_TOKEN is not set');
    const status = await server.call('GET', '/api/v1/status');
    expect(status.text).toContain('API_TOKEN is not set');
  });

  test('nobody can change anything, whatever token is sent', async () => {
    await using server = await startTestServer({ environment });
    for (const path of CHANGES) {
      const answer = await server.call('POST', path, { token: 'anything', body: { seq: 0 } });
      expect(answer.status).toBe(403);
      expect(answer.json).toStrictEqual({
        error: 'changes are disabled: no API_TOKEN: set API_TOKEN to enable them',
      });
    }
  });

  test('ingest is disabled', async () => {
    await using server = await startTestServer({ environment });
    const answer = await server.call('POST', '/api/v1/events', { token: 'anything', body: {} });
    expect(answer.status).toBe(403);
    expect(answer.json).toStrictEqual({
      error: 'ingest is disabled: set INGEST_TOKEN (or API_TOKEN) to enable it',
    });
  });

  test('INGEST_TOKEN alone opens ingest and changes nothing else', async () => {
    await using server = await startTestServer({ environment: { API_TOKEN: '' } });
    const push = await server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body: {} });
    expect(push.status).toBe(400);
    expect((await server.call('GET', '/api/v1/status')).status).toBe(200);
    const change = await server.call('POST', CHANGES[0] ?? '', { token: INGEST_TOKEN });
    expect(change.status).toBe(403);
  });
});

test('no token and no credential is in any answer, metric or log line', async () => {
  const secrets = {
    API_TOKEN: 'canary-api-7c1,canary-api-second',
    INGEST_TOKEN: 'canary-ingest-2b9',
    ADAPTERS: 'webhook,lago',
    LAGO_API_KEY: 'canary-lago-key-55',
    LAGO_API_URL: 'http://lago.example.com',
    WEBHOOK_URL: 'https://hooks.example.com/usage',
    WEBHOOK_SECRET: 'canary-webhook-secret',
    WEBHOOK_HEADERS: 'X-Key=canary-header-value',
    PROMETHEUS_URL: 'https://user:canary-prometheus@prometheus.example.com',
    STRIPE_WEBHOOK_SECRET: 'canary-stripe-whsec',
  };
  await using server = await startTestServer({
    environment: secrets,
    views: {
      discovery: quietDiscovery({ tenants: () => [testTenant('acme')] }),
    },
  });
  const token = 'canary-api-7c1';
  for (const path of [...OPEN, ...READS, '/readyz?verbose', '/api/v1/tenants/acme', '/api/none']) {
    await server.call('GET', path, { token });
    await server.call('GET', path, { token: 'canary-wrong-token' });
    await server.call('POST', path, { token });
  }
  for (const path of CHANGES) {
    await server.call('POST', path, { token, body: { seq: 'x', ids: ['y'] } });
  }
  const body = { tenant: 'acme', metric: 'x' };
  await server.call('POST', '/api/v1/events', { token: 'canary-ingest-2b9', body });
  const all = [...server.answers, ...server.log, await server.metrics.metrics()].join('\n');
  expect(all).toContain('acme');
  expect(all).not.toContain('canary');
});
