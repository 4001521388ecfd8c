import { describe, expect, test } from 'vitest';
import { API_TOKEN, INGEST_TOKEN, startTestServer } from '../testing/test-server.ts';
import { newKey } from './testing/keys.ts';
import { CANARY, FOREIGN, KEY, OWN, twoTenants } from './testing/two-tenants.ts';

/** What a tenant's own token may read; everything else is closed to it. */
const ALLOWED = [
  '/api/v1/catalog',
  '/api/v1/events',
  '/api/v1/events/{id}/explain',
  '/api/v1/usage',
  '/api/v1/costs',
  '/api/v1/months/{month}',
  '/api/v1/gaps',
  '/api/v1/gpus',
  '/api/v1/focus',
  '/api/v1/tenants/{tenant}',
  '/api/v1/tenants/{tenant}/statement',
];

const OPEN = [
  '/',
  '/healthz',
  '/leaderz',
  '/readyz',
  '/metrics',
  '/webhooks/{provider}',
  '/.well-known/meterfeed-statement-keys.json',
];

describe('a token of a tenant', () => {
  test('reads what is its own, and a route that nobody thought of is closed', async () => {
    await using world = await twoTenants();
    const { server, ids } = world;
    const { token } = await world.mint();
    const index = (await server.call('GET', '/')).json as {
      readonly routes: readonly { readonly method: string; readonly path: string }[];
    };
    const fill = (path: string): string =>
      path
        .replace('{tenant}', OWN)
        .replace('{id}', ids.own[0] ?? '')
        .replace('{month}', '2026-11')
        .replace(/(statement|focus)$/, '$1?month=2026-11')
        .replace(/\{\w+\}/, 'x');
    for (const { method, path } of index.routes) {
      if (OPEN.includes(path)) continue;
      const { status } = await server.call(method, fill(path), { token });
      const expected = method === 'GET' && ALLOWED.includes(path) ? 200 : 403;
      expect([method, path, status]).toStrictEqual([method, path, expected]);
    }
    for (const path of ['/api', '/api/v1', '/api/v1/nothing', '/api/v1/usage/x']) {
      expect((await server.call('GET', path, { token })).status).toBe(403);
    }
  });

  test('has a statement of its tenant without a word about others', async () => {
    await using world = await twoTenants();
    const { token } = await world.mint();
    const path = `/api/v1/tenants/${OWN}/statement?month=2026-11`;
    const { status, text } = await world.server.call('GET', path, { token });
    expect(status).toBe(200);
    for (const id of world.ids.own) expect(text).toContain(id);
    expect(text).not.toContain(CANARY);
  });

  test('gives the same sums as an operator sees of that tenant, and nothing else', async () => {
    await using world = await twoTenants();
    const { server } = world;
    const { token } = await world.mint();
    for (const path of [
      'usage?',
      'usage?group_by=day,sku&',
      'costs?',
      'months/2026-11?',
      'events?',
    ]) {
      const requested = await server.call('GET', `/api/v1/${path}`, { token });
      const operators = await server.call('GET', `/api/v1/${path}tenant=${OWN}`, {
        token: API_TOKEN,
      });
      expect(requested.text).toBe(operators.text);
      expect(requested.text).toContain('own-sku'.slice(0, path.startsWith('events') ? 7 : 0));
      expect(requested.text).not.toContain(CANARY);
    }
  });

  test('reports what the tenant has of GPUs, and nothing of what others have or nobody has', async () => {
    await using world = await twoTenants();
    const { server } = world;
    const query = 'from=2026-11-21&group_by=window,tenant,gpu_type';
    const { token } = await world.mint();
    const own = await server.call('GET', `/api/v1/gpus?${query}`, { token });
    expect(own.json).toMatchObject({
      totals: [{ gpu_type: 'own-gpu', delivered: 2, in_use: 1 }],
      rows: [{ tenant: OWN, gpu_type: 'own-gpu', delivered: 2, in_use: 1 }],
    });
    expect(own.text).not.toContain('installed');
    expect(own.text).not.toContain(CANARY);
    // A tenant may have the name that stands for nobody.
    const named = await world.mint('unassigned');
    for (const requested of [query, `${query}&tenant=unassigned`]) {
      const its = await server.call('GET', `/api/v1/gpus?${requested}`, { token: named.token });
      const row = { tenant: 'unassigned', gpu_type: `${CANARY}-gpu`, delivered: 7, idle: 0 };
      expect(its.json).toMatchObject({ totals: [{ delivered: 7 }], rows: [row] });
    }
  });

  test('never gets the answer that was kept for somebody else', async () => {
    await using world = await twoTenants();
    const { server } = world;
    const headers = { 'cache-control': 'max-age=300' };
    const [own, other] = [await world.mint(), await world.mint('kanari-globex')];
    for (const path of ['usage', 'usage?group_by=sku', 'costs?group_by=sku', 'months/2026-11']) {
      const everybody = await server.call('GET', `/api/v1/${path}`, { token: API_TOKEN, headers });
      const ours = await server.call('GET', `/api/v1/${path}`, { token: own.token, headers });
      const theirs = await server.call('GET', `/api/v1/${path}`, { token: other.token, headers });
      expect(new Set([everybody.text, ours.text, theirs.text]).size).toBe(3);
      expect(ours.text).not.toContain(CANARY);
    }
  });

  test('learns nothing of whether another tenant or event exists', async () => {
    await using world = await twoTenants();
    const { server, ids } = world;
    const { token } = await world.mint();
    const query = async (path: string) => {
      const { status, text } = await server.call('GET', path, { token });
      return [status, text];
    };
    const unknown = await query('/api/v1/tenants/nobody');
    const filtered = await query('/api/v1/usage?tenant=nobody');
    expect([unknown[0], filtered[0]]).toStrictEqual([403, 403]);
    for (const tenant of FOREIGN.filter((name) => name.trim() === name).map(encodeURIComponent)) {
      expect(await query(`/api/v1/tenants/${tenant}`)).toStrictEqual(unknown);
      expect(await query(`/api/v1/usage?tenant=${tenant}`)).toStrictEqual(filtered);
    }
    const [foreign = ''] = ids.foreign;
    const stated = (id: string) => `no such event: ledger: "${id}": use an id of /api/v1/events`;
    for (const id of [foreign, 'no-such-event']) {
      const answer = await server.call('GET', `/api/v1/events/${id}/explain`, { token });
      expect([answer.status, answer.json]).toStrictEqual([404, { error: stated(id) }]);
    }
  });

  test('gets gaps and tenant clusters without what operators say of them', async () => {
    await using world = await twoTenants();
    const { server, ids } = world;
    const { token } = await world.mint();
    const gaps = await server.call('GET', '/api/v1/gaps?from=2026-11-21', { token });
    expect(gaps.json).toMatchObject({ open: [], ended: [{ scopes: ['*', 'own-cluster'] }] });
    const explained = await server.call('GET', `/api/v1/events/${ids.own[1]}/explain`, { token });
    expect(explained.status).toBe(200);
    const own = await server.call('GET', `/api/v1/tenants/${OWN}`, { token });
    expect(own.json).toMatchObject({ cluster_names: { 'own-cluster': 'main' } });
    for (const { text } of [gaps, explained, own]) expect(text).not.toContain(CANARY);
  });

  test('is no token for pushing or changing, and none in an address', async () => {
    await using world = await twoTenants();
    const { server } = world;
    const { token } = await world.mint();
    const push = await server.call('POST', '/api/v1/events', { token, body: { events: [] } });
    expect(push.status).toBe(403);
    const more = await server.call('POST', `/api/v1/tenants/${OWN}/portal-tokens`, { token });
    expect(more.status).toBe(403);
    for (const name of ['token', 'access_token', 'authorization']) {
      expect((await server.call('GET', `/api/v1/usage?${name}=${token}`)).status).toBe(401);
    }
    const headers = { 'x-meterfeed-token': token };
    expect((await server.call('GET', '/api/v1/usage', { headers })).status).toBe(200);
  });
});

describe('a revoked token', () => {
  test('is not good in the next request, nor after a restart', async () => {
    await using world = await twoTenants();
    const { server, ledger } = world;
    const [first, second, other] = [
      await world.mint(),
      await world.mint(),
      await world.mint('kanari-globex'),
    ];
    const statuses = (of = server) =>
      Promise.all(
        [first, second, other].map(
          async ({ token }) => (await of.call('GET', '/api/v1/usage', { token })).status,
        ),
      );
    const revoke = async (path: string, status = 200) => {
      const answer = await server.call('DELETE', `/api/v1/tenants/${path}`, { token: API_TOKEN });
      expect(answer.status).toBe(status);
    };
    expect(await statuses()).toStrictEqual([200, 200, 200]);
    await revoke(`nobody/portal-tokens/${first.id}`, 404);
    await revoke(`${OWN}/portal-tokens/${other.id}`, 404);
    expect(await statuses()).toStrictEqual([200, 200, 200]);
    const began = performance.now();
    await revoke(`${OWN}/portal-tokens/${first.id}`);
    expect(await statuses()).toStrictEqual([401, 200, 200]);
    expect(performance.now() - began).toBeLessThan(1000);
    await revoke(`${OWN}/portal-tokens`);
    expect(await statuses()).toStrictEqual([401, 401, 200]);
    await using again = await twoTenants({}, ledger);
    expect(await statuses(again.server)).toStrictEqual([401, 401, 200]);
    const { token } = await world.mint();
    expect((await again.server.call('GET', '/api/v1/usage', { token })).status).toBe(200);
  });

  test('says that it has ended, and counts as no guess', async () => {
    await using world = await twoTenants();
    const { server } = world;
    const { token } = await world.mint();
    await server.call('DELETE', `/api/v1/tenants/${OWN}/portal-tokens`, { token: API_TOKEN });
    for (let round = 0; round < 130; round++) {
      const answer = await server.call('GET', '/api/v1/usage', { token });
      expect(answer.json).toStrictEqual({
        error: 'token not valid: it has expired or was revoked: request a new one',
      });
    }
    expect(await server.metrics.metrics()).toContain(
      'meterfeed_http_refused_tokens_total{reason="ended"} 130',
    );
  });
});

describe('making tokens', () => {
  test('takes a known tenant, a time of at most a day, and says so', async () => {
    await using world = await twoTenants();
    const query = async (tenant: string, body?: unknown) =>
      world.server.call('POST', `/api/v1/tenants/${tenant}/portal-tokens`, {
        token: API_TOKEN,
        body,
      });
    const made = await query(OWN);
    expect(made.json).toMatchObject({ tenant: OWN, expires_at: '2026-11-21T10:05:00Z' });
    const day = await query(OWN, { valid_for: '24h' });
    expect(day.json).toMatchObject({ expires_at: '2026-11-22T09:05:00Z' });
    for (const body of [
      { valid_for: '24h1s' },
      { valid_for: '59s' },
      { valid_for: 3600 },
      { validFor: '1h' },
      [],
    ]) {
      expect((await query(OWN, body)).status).toBe(400);
    }
    expect((await query('nobody')).status).toBe(404);
    expect(world.server.log.join('\n')).not.toContain((made.json as { token: string }).token);
  });

  test('and revoking needs the token that may change things', async () => {
    await using world = await twoTenants();
    const path = `/api/v1/tenants/${OWN}/portal-tokens`;
    for (const method of ['POST', 'DELETE']) {
      expect((await world.server.call(method, path)).status).toBe(401);
      const pushing = await world.server.call(method, path, { token: INGEST_TOKEN });
      expect(pushing.status).toBe(403);
    }
  });
});

describe('without a key', () => {
  test('there is no portal, and reading is as it was', async () => {
    await using server = await startTestServer({ environment: { API_TOKEN: '' } });
    expect((await server.call('GET', '/api/v1/usage')).status).toBe(200);
    await using locked = await startTestServer();
    const path = `/api/v1/tenants/${OWN}/portal-tokens`;
    for (const [method, more] of [
      ['POST', ''],
      ['DELETE', ''],
      ['DELETE', '/b7f5b1f0-4d4e-4c43-9a5b-0b4e0d0c0a09'],
    ] as const) {
      const answer = await locked.call(method, `${path}${more}`, { token: API_TOKEN });
      expect([method, answer.status]).toStrictEqual([method, 404]);
    }
  });
});

test('a portal beside an API without API_TOKEN does not leave the usage of all tenants open', async () => {
  const environment = { API_TOKEN: '', PORTAL_KEYS: newKey() };
  await using server = await startTestServer({ environment });
  expect((await server.call('GET', '/api/v1/usage')).status).toBe(401);
  expect((await server.call('GET', '/api/v1/usage', { token: 'anything' })).status).toBe(401);
  expect(server.log.join('\n')).toContain('only tenants can read');
  await using world = await twoTenants();
  const { token } = await world.mint();
  await using other = await startTestServer({ environment: { API_TOKEN: '', PORTAL_KEYS: KEY } });
  expect((await other.call('GET', '/api/v1/usage', { token })).status).toBe(200);
});

test('tenants that export as much as they can leave room for operators and for each other', async () => {
  await using world = await twoTenants();
  const { server } = world;
  const { token } = await world.mint();
  const other = await world.mint('kanari-globex');
  const path = '/api/v1/usage?group_by=hour';
  const many = await Promise.all(
    Array.from({ length: 12 }, () => server.call('GET', path, { token })),
  );
  expect(
    many.map(({ status }) => status).filter((status) => status !== 200 && status !== 503),
  ).toStrictEqual([]);
  const [theirs, operators] = await Promise.all([
    server.call('GET', path, { token: other.token }),
    server.call('GET', path, { token: API_TOKEN }),
  ]);
  expect([theirs.status, operators.status]).toStrictEqual([200, 200]);
});
