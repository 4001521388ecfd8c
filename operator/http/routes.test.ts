import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import {
  API_TOKEN,
  NOW,
  startTestServer,
  testCluster,
  testSettings,
  testTenant,
  quietDiscovery,
} from './testing/test-server.ts';
import type {
  DestinationOperations,
  DestinationStatusView,
  DestinationsView,
  MeteringView,
} from './views.ts';

const token = API_TOKEN;

const webhook: DestinationStatusView = {
  name: 'webhook',
  type: 'webhook',
  ready: true,
  suspended: false,
  bootstrapped: true,
  blocked: 'HTTP 401: the key is refused',
  cursor: 1,
  cursorWindowEnd: '2026-11-21T09:01:00Z',
  lagEvents: 2,
  lagSeconds: 61.5,
  delivered: 1,
  skipped: 0,
  deadLetters: 1,
  parked: 4,
  parkedTenants: [{ tenant: 'acme', reason: 'unknown plan: "gold"', events: 4, since: NOW }],
  offboarding: 0,
  planChanges: [{ tenant: 'a', from: 'standard', to: 'gold', at: 0, since: 0 }],
  unknownMetrics: ['tokens'],
  unpriced: [
    {
      metric: 'tenant_gpu_hours',
      sku: 'H100',
      plan: 'standard',
      atStake: '7.5',
      savedUntil: Date.UTC(2026, 11, 1),
    },
  ],
  lateRefusals: [{ at: NOW, events: 2, reason: 'archived_meter', example: 'svc1_0' }],
  drift: {
    day: Date.UTC(2026, 10, 20),
    comparedAt: NOW,
    compared: 80,
    unanswered: 1,
    differing: 1,
    examples: [{ tenant: 'acme', metric: 'tenant_gpu_hours', difference: '-0.25' }],
  },
  prices: { differing: 4, examples: ['plan "standard": tenant_gpu_hours: no price'] },
  invoices: {
    comparedAt: NOW,
    tenants: 3,
    unanswered: 1,
    problem: 'HTTP 503',
    differing: 1,
    examples: [
      {
        tenant: 'acme',
        metric: 'tenant_gpu_hours',
        difference: '-4',
        amount: { value: -8, currency: 'USD' },
        until: NOW,
        cause: 'the usage arrived after its invoice was final',
      },
    ],
  },
  tooSlow: { allowed: 20, needed: 140 },
  consecutiveFailures: 3,
  lastSuccessAt: NOW - 1000,
  lastErrorAt: NOW,
  lastError: 'HTTP POST /usage: connection refused',
};

const gap = { source: 'metrics', scope: 'acme', from: NOW - 60_000, to: NOW, reason: 'timed out' };

const metering: MeteringView = {
  failedTenantApis: () => [
    { tenantCluster: 'tenant-a-b', reason: 'secret "svc-kubeconfig" not found', since: NOW },
  ],
  unattributed: () => ({
    total: 2,
    items: ['a/stray: several tenant clusters (60 GPU-seconds)', 'a/web: several tenant clusters'],
    gpuSeconds: 60,
    gpuObjects: 1,
  }),
  withoutKubeconfig: () => Array.from({ length: 150 }, (_, index) => `tenant-shared-${index}`),
  metricsFailure: () => ({ reason: 'HTTP 503', since: NOW }),
  gaps: () => [gap],
  pastGaps: () => [],
  windows: () =>
    Iterator.from([
      {
        start: NOW - 60_000,
        end: NOW,
        events: 12,
        gaps: [gap],
        details: { openReversalSeconds: 1.5, unattributed: { total: 0, items: [] } },
      },
      { start: NOW - 120_000, end: NOW - 60_000, events: 11, gaps: [] },
    ]),
};

describe('status', () => {
  test('shows what an operator has to know', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: [testEvent()], windowEnd: NOW });
    await ledger.commitCursor('webhook', 1);
    await using server = await startTestServer({
      ledger,
      views: {
        metering,
        discovery: quietDiscovery({
          tenants: () => [testTenant('acme')],
          clusters: () => [testCluster('acme', testSettings())],
        }),
        destinations: withDestinations({}),
      },
    });
    const { json } = await server.call('GET', '/api/v1/status', { token });
    expect(json).toMatchObject({
      version: '1.2.3',
      region: 'eu-central-1',
      cluster: 'control-plane',
      ready: true,
      window: '1m0s',
      window_seconds: 60,
      last_window_end: '2026-11-21T09:05:00Z',
      tenants: 1,
      tenant_clusters: 1,
      adapters: ['webhook'],
      failed_tenant_apis: [
        {
          tenant_cluster: 'tenant-a-b',
          reason: 'secret "svc-kubeconfig" not found',
          since: '2026-11-21T09:05:00Z',
        },
      ],
      without_kubeconfig: { total: 150, items: expect.toSatisfy((ids) => ids.length === 100) },
      unattributed: { total: 2, gpu_seconds: 60 },
      metrics_api_failure: { reason: 'HTTP 503', since: '2026-11-21T09:05:00Z' },
      gaps: [{ source: 'metrics', scope: 'acme', to: '2026-11-21T09:05:00Z' }],
      ledger: { committed: 1, cursors: { webhook: 1 } },
      destinations: [
        {
          name: 'webhook',
          summary: 'DeadLetters: events refused for good',
          prices: { differing: 4, examples: ['plan "standard": tenant_gpu_hours: no price'] },
          lag_records: 2,
          dead_letters: 1,
          unknown_metrics: ['tokens'],
          unpriced: [
            {
              metric: 'tenant_gpu_hours',
              sku: 'H100',
              plan: 'standard',
              at_stake: '7.5',
              saved_until: '2026-12-01T00:00:00Z',
            },
          ],
          late_refusals: [
            {
              at: '2026-11-21T09:05:00Z',
              events: 2,
              reason: 'archived_meter',
              example: 'svc1_0',
            },
          ],
          drift: {
            day: '2026-11-20',
            compared_at: '2026-11-21T09:05:00Z',
            compared_rows: 80,
            unanswered_rows: 1,
            differing_rows: 1,
            examples: [{ tenant: 'acme', metric: 'tenant_gpu_hours', difference: -0.25 }],
          },
          invoices: {
            compared_at: '2026-11-21T09:05:00Z',
            tenants: 3,
            unanswered_tenants: 1,
            problem: 'HTTP 503',
            differing_rows: 1,
            examples: [
              {
                tenant: 'acme',
                metric: 'tenant_gpu_hours',
                difference: -4,
                amount: { value: -8, currency: 'USD' },
                until: '2026-11-21T09:05:00Z',
                cause: 'the usage arrived after its invoice was final',
              },
            ],
          },
          rate_limit: { events_per_second: 20, needed_events_per_second: 140 },
        },
      ],
      warnings: [],
    });
  });

  test('has empty lists and no times where there is nothing yet', async () => {
    await using server = await startTestServer();
    const { json } = await server.call('GET', '/api/v1/status', { token });
    expect(json).toMatchObject({
      adapters: [],
      failed_tenant_apis: [],
      without_kubeconfig: { total: 0, items: [] },
      unattributed: { total: 0, items: [], gpu_seconds: 0 },
      gaps: [],
      destinations: [],
    });
    expect(json).not.toHaveProperty('last_window_end');
  });

  test('warns of a region that is not unique', async () => {
    await using server = await startTestServer({ environment: { REGION: '' } });
    const { text } = await server.call('GET', '/api/v1/status', { token });
    expect(text).toContain('REGION is \\"default\\"');
  });
});

describe('readiness', () => {
  const readiness = () => [
    { name: 'ledger', ok: true },
    { name: 'discovery', ok: false, detail: 'waiting for first successful discovery' },
  ];

  test('is 503 with what it waits for, while liveness is not touched', async () => {
    await using server = await startTestServer({ views: { readiness } });
    const answer = await server.call('GET', '/readyz');
    expect(answer.status).toBe(503);
    expect(answer.text).toBe('waiting for first successful discovery\n');
    expect((await server.call('GET', '/healthz')).text).toBe('ok\n');
  });

  test('lists its checks on request', async () => {
    await using server = await startTestServer({ views: { readiness } });
    const lines = '[+] ledger ok\n[-] discovery failed: waiting for first successful discovery\n';
    for (const query of ['?verbose', '?verbose=true']) {
      expect((await server.call('GET', `/readyz${query}`)).text).toBe(lines);
    }
    expect((await server.call('GET', '/readyz?verbose=false')).text).not.toContain('[+]');
  });
});

test('the catalogue has the twelve built-in metrics and the custom ones', async () => {
  await using server = await startTestServer();
  const { json } = await server.call('GET', '/api/v1/catalog', { token });
  const { metrics } = json as { metrics: { code: string }[] };
  expect(metrics).toHaveLength(13);
  expect(metrics.at(-1)).toMatchObject({
    code: 'tokens_used',
    unit: 'tokens',
    source: 'custom',
    aggregation_field: 'tokens_used',
    dimensions: ['model'],
  });
});

test('tenant clusters of one name can be distinguished', async () => {
  const named = (id: string, name: string, displayName = 'Acme') => ({
    ...testCluster(id, testSettings()),
    name,
    displayName,
  });
  const clusters = () => [named('a', 'main'), named('b', 'test'), named('c', 'main', 'Globex')];
  const tenants = () => [testTenant('acme', { clusters: ['a', 'b', 'c', 'gone'] })];
  await using server = await startTestServer({
    views: { discovery: quietDiscovery({ tenants, clusters }) },
  });
  const { json } = await server.call('GET', '/api/v1/tenants', { token });
  expect(json).toMatchObject({
    tenants: [{ cluster_names: { a: 'Acme, main', b: 'Acme, test', c: 'Globex', gone: 'gone' } }],
  });
});

describe('tenants', () => {
  const tenants = () => [
    testTenant('b', { plan: 'gold', customerIds: { stripe: 'cus_1' }, costCenter: 'cc-9' }),
    testTenant('a/ü "x"', { displayName: '<img src=x onerror=alert(1)>' }),
  ];
  const clusters = () => [testCluster('b', testSettings())];
  const views = { discovery: quietDiscovery({ tenants, clusters }) };

  test('are sorted, and show what is set', async () => {
    await using server = await startTestServer({ views });
    const { json } = await server.call('GET', '/api/v1/tenants', { token });
    expect(json).toMatchObject({
      tenants: [
        { id: 'a/ü "x"', display_name: '<img src=x onerror=alert(1)>' },
        {
          id: 'b',
          plan: 'gold',
          provider_ids: { stripe: 'cus_1' },
          metadata: { cost_center: 'cc-9' },
        },
      ],
    });
  });

  test('are found by any id, and answered as JSON that no browser renders', async () => {
    await using server = await startTestServer({ views });
    const path = `/api/v1/tenants/${encodeURIComponent('a/ü "x"')}`;
    const answer = await server.call('GET', path, { token });
    expect(answer.json).toMatchObject({ id: 'a/ü "x"', tenant_clusters: [] });
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    const one = await server.call('GET', '/api/v1/tenants/b', { token });
    expect(one.json).toMatchObject({ tenant_clusters: [{ id: 'b', overrides: [] }] });
  });

  test('that are unknown are 404', async () => {
    await using server = await startTestServer({ views });
    const answer = await server.call('GET', '/api/v1/tenants/nobody', { token });
    expect(answer.status).toBe(404);
    expect(answer.json).toStrictEqual({ error: 'no such tenant: "nobody": see /api/v1/tenants' });
  });
});

describe('windows', () => {
  test('are listed newest first, and found by their end', async () => {
    await using server = await startTestServer({ views: { metering } });
    const { json } = await server.call('GET', '/api/v1/windows?limit=1', { token });
    expect(json).toMatchObject({
      windows: [{ window_end: '2026-11-21T09:05:00Z', events: 12, open_reversal_seconds: 1.5 }],
    });
    const one = await server.call('GET', '/api/v1/windows/2026-11-21T09:04:00Z', { token });
    expect(one.json).toMatchObject({ window_start: '2026-11-21T09:03:00Z', events: 11 });
    for (const end of ['2026-11-21T08:00:00Z', 'yesterday']) {
      expect((await server.call('GET', `/api/v1/windows/${end}`, { token })).status).toBe(404);
    }
  });
});

describe('destinations', () => {
  test('that cannot start are shown with the reason that kubectl shows', async () => {
    const message = 'spec.webhook.secretRefs[0]: no such Secret: "invoicing"';
    const problem = { reason: 'SecretNotFound', message, inForce: false };
    const lost = { ...webhook, name: 'lost', ready: false, blocked: message, problem };
    const destinations = { ...withDestinations({}), list: () => [webhook, lost] };
    await using server = await startTestServer({ views: { destinations } });
    const { json } = await server.call('GET', '/api/v1/destinations', { token });
    expect(json).toMatchObject({
      destinations: [
        { name: 'webhook', ready: true },
        {
          name: 'lost',
          ready: false,
          problem: { reason: 'SecretNotFound', message, in_force: false },
        },
      ],
    });
    const status = await server.call('GET', '/api/v1/status', { token });
    expect(status.json).toMatchObject({
      adapters: ['webhook'],
      destinations: [{ name: 'webhook' }, { name: 'lost' }],
    });
  });

  const event = testEvent({ quantity: '123456789.123456789' });

  test('list their dead letters page by page, every digit kept', async () => {
    const requested: unknown[] = [];
    const destinations = withDestinations({
      deadLetters: async (...args) => {
        requested.push(args);
        const letter = { sequence: 7, at: NOW, reason: 'too old', event };
        return { deadLetters: [letter, { ...letter, unansweredSince: NOW - 60_000 }], next: 7 };
      },
    });
    await using server = await startTestServer({ views: { destinations } });
    const path = '/api/v1/destinations/web%20hook/dead-letters';
    const answer = await server.call('GET', `${path}?after=3&limit=1`, { token });
    expect(requested).toStrictEqual([['web hook', 3, 1]]);
    expect(answer.json).toMatchObject({
      destination: 'web hook',
      next: 7,
      dead_letters: [
        { sequence: 7, reason: 'too old' },
        { unanswered_since: '2026-11-21T09:04:00Z' },
      ],
    });
    expect(answer.text.match(/unanswered_since/g)).toHaveLength(1);
    expect(answer.text).toContain('"quantity":123456789.123456789}');
  });

  test('replay all without a body, as the earlier release did, or those that are named', async () => {
    const requested: unknown[] = [];
    const destinations = withDestinations({
      replay: async (...args) => {
        requested.push(args);
        return { kind: 'replayed', replayed: 2, stillRejected: 1, pending: 0 };
      },
    });
    await using server = await startTestServer({ views: { destinations } });
    const path = '/api/v1/destinations/webhook/dead-letters/replay';
    const all = await server.call('POST', path, { token });
    expect(all.json).toStrictEqual({ replayed: 2, still_rejected: 1, pending: 0 });
    await server.call('POST', path, { token, body: { all: true } });
    await server.call('POST', path, { token, body: { ids: ['a', 'b'] } });
    expect(requested).toStrictEqual([
      ['webhook', undefined, false],
      ['webhook', undefined, false],
      ['webhook', ['a', 'b'], false],
    ]);
    expect(server.log.join()).toContain('an operator replayed dead letters');
  });

  test('require force before they reach into closed periods, and the log keeps that they did', async () => {
    const reason = '2 events of closed billing periods: of tenant "acme"';
    const wants = { kind: 'wants-force', reason } as const;
    const destinations = withDestinations({
      replay: async (_name, _ids, force) =>
        force
          ? { kind: 'replayed', replayed: 2, stillRejected: 0, pending: 0, forced: reason }
          : wants,
      moveCursor: async (_name, sequence, force) =>
        force ? { kind: 'moved', sequence, warnings: [], forced: reason } : wants,
    });
    await using server = await startTestServer({ views: { destinations } });
    const base = '/api/v1/destinations/webhook';
    for (const [path, body] of [
      ['dead-letters/replay', { all: true }],
      ['cursor', { seq: 0 }],
    ] as const) {
      const post = (more: object) =>
        server.call('POST', `${base}/${path}`, { token, body: { ...body, ...more } });
      const refused = await post({});
      expect(refused.status).toBe(409);
      expect(refused.json).toStrictEqual({
        error: `${reason}: destination "webhook": nothing was changed: send "force": true to do it anyway`,
      });
      expect(server.log.join()).not.toContain(path === 'cursor' ? 'moved' : 'replayed');
      expect((await post({ force: 'yes' })).status).toBe(400);
      expect((await post({ force: true })).status).toBe(200);
    }
    const forced = server.log.filter((line) => line.includes('closed billing periods'));
    expect(forced).toHaveLength(2);
  });

  test('name the ids that are no dead letters, instead of counting none', async () => {
    const unknown = ['a', 'b'];
    const destinations = withDestinations({
      replay: async () => ({
        kind: 'replayed',
        replayed: 0,
        stillRejected: 0,
        pending: 0,
        unknown,
      }),
      discard: async () => ({ kind: 'discarded', discarded: 0, unknown }),
    });
    await using server = await startTestServer({ views: { destinations } });
    const path = '/api/v1/destinations/webhook/dead-letters';
    const body = { ids: unknown };
    const replayed = await server.call('POST', `${path}/replay`, { token, body });
    expect(replayed.json).toStrictEqual({ replayed: 0, still_rejected: 0, pending: 0, unknown });
    const discarded = await server.call('POST', `${path}/discard`, { token, body });
    expect(discarded.json).toStrictEqual({ discarded: 0, unknown });
  });

  test('never discard everything because a body was empty or misspelt', async () => {
    const destinations = withDestinations({
      discard: async () => ({ kind: 'discarded', discarded: 1 }),
    });
    await using server = await startTestServer({ views: { destinations } });
    const path = '/api/v1/destinations/webhook/dead-letters/discard';
    const status = async (body: unknown) =>
      (await server.call('POST', path, { token, body })).status;
    for (const body of [
      {},
      { ids: [] },
      { all: 'yes' },
      { id: 'a' },
      [],
      'x',
      { ids: [1] },
      { ids: ['a'], all: true },
    ]) {
      expect(await status(body)).toBe(400);
    }
    expect((await server.call('POST', path, { token })).status).toBe(415);
    expect(await status({ ids: ['a'] })).toBe(200);
    expect(await status({ all: true })).toBe(200);
  });

  test('move their cursor, at most to the head, and pass on warnings', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: [event] });
    const moved: unknown[] = [];
    const destinations = withDestinations({
      moveCursor: async (name, sequence) => {
        moved.push([name, sequence]);
        return { kind: 'moved', sequence, warnings: ['ids are remembered for 24 hours'] };
      },
    });
    await using server = await startTestServer({ ledger, views: { destinations } });
    const path = '/api/v1/destinations/webhook/cursor';
    const answer = await server.call('POST', path, { token, body: { seq: 99 } });
    expect(answer.json).toStrictEqual({
      destination: 'webhook',
      cursor: 1,
      warnings: ['ids are remembered for 24 hours'],
    });
    expect(moved).toStrictEqual([['webhook', 1]]);
    for (const seq of [-1, 1.5, '1', null, 1e300]) {
      expect((await server.call('POST', path, { token, body: { seq } })).status).toBe(400);
    }
  });

  test('that are unknown are 404; the answer says what could not be done, and nothing changed', async () => {
    await using unknown = await startTestServer();
    const paths = ['cursor', 'dead-letters/replay', 'dead-letters/discard'];
    for (const path of paths) {
      const body = path === 'cursor' ? { seq: 1 } : { all: true };
      const answer = await unknown.call('POST', `/api/v1/destinations/x/${path}`, { token, body });
      expect(answer.status).toBe(404);
      expect(answer.text).toContain('no destination');
    }
    expect(
      (await unknown.call('GET', '/api/v1/destinations/x/dead-letters', { token })).status,
    ).toBe(404);
    const reason = 'no such Secret: "billing-lago"';
    const failed = async () => ({ kind: 'failed', reason }) as const;
    await using server = await startTestServer({
      views: {
        destinations: withDestinations({ replay: failed, discard: failed, moveCursor: failed }),
      },
    });
    const statuses = [];
    for (const path of paths) {
      const body = path === 'cursor' ? { seq: 1 } : { all: true };
      const answer = await server.call('POST', `/api/v1/destinations/x/${path}`, { token, body });
      expect(answer.text).toContain('no such Secret');
      statuses.push(answer.status);
    }
    expect(statuses).toStrictEqual([409, 409, 409]);
  });
});

test('a damaged ledger is 409 with the places', async () => {
  const sound = createMemoryLedger();
  await sound.append({ events: [testEvent()] });
  await using server = await startTestServer({ ledger: sound });
  const ok = await server.call('GET', '/api/v1/ledger/verify', { token });
  expect([ok.status, ok.json]).toMatchObject([200, { ok: true, records: 1, errors: [] }]);
  const report = await sound.verify();
  const damaged = { ...report, ok: false, errors: ['segment 1: sequence 7: wrong checksum'] };
  await using broken = await startTestServer({
    ledger: { ...sound, verify: async () => damaged },
  });
  const answer = await broken.call('GET', '/api/v1/ledger/verify', { token });
  expect([answer.status, answer.json]).toMatchObject([409, { ok: false, errors: damaged.errors }]);
});

describe('wrong requests', () => {
  test.each([
    ['/api/v1/status?verbos=1', 'unknown query parameter: "verbos": this path takes none'],
    ['/api/v1/usage?tennant=a', 'unknown query parameter: "tennant": use one of from, to, tenant'],
    ['/api/v1/usage?tenant=a&tenant=b', 'query parameter given more than once: tenant'],
    [
      '/api/v1/usage?from=yesterday',
      'invalid time: from: "yesterday": use one such as 2026-11-21T09:00:00Z, or a day such as 2026-11-21',
    ],
    ['/api/v1/usage?from=2026-02-30', 'invalid time: from: "2026-02-30"'],
    [
      '/api/v1/usage?from=2026-11-21&to=2026-11-20',
      'to must be after from: to: "2026-11-20T00:00:00.000Z"',
    ],
    ['/api/v1/usage?group_by=Tenant', 'unknown key: group_by: "Tenant"'],
    ['/api/v1/usage?group_by=quantity', 'unknown key: group_by: "quantity"'],
    ['/api/v1/usage?group_by=a,b,c,d,e,f,g,h,i', 'too many keys: group_by: 9: use at most 8'],
    ['/api/v1/usage?format=xml', 'unknown format: "xml": use json or csv'],
    ['/api/v1/events?limit=-1', 'not a whole number: limit: "-1"'],
    ['/api/v1/events?limit=ten', 'not a whole number: limit: "ten"'],
    ['/api/v1/windows?limit=1001', 'not a whole number: limit: "1001": use 1 to 1000'],
    ['/api/v1/tenants/%E0%A4%A', 'bad request: path: check its percent-encoding'],
  ])('%s', async (path, error) => {
    await using server = await startTestServer();
    const answer = await server.call('GET', path, { token });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(JSON.stringify(error).slice(1, -1));
  });

  test('another method is 405 and says which ones there are', async () => {
    await using server = await startTestServer();
    const answer = await server.call('DELETE', '/api/v1/events', { token });
    expect(answer.status).toBe(405);
    expect(answer.headers.get('allow')).toBe('POST, GET, HEAD');
    expect((await server.call('POST', '/healthz')).headers.get('allow')).toBe('GET, HEAD');
  });

  test('another method on every path makes a series of the metrics each', async () => {
    await using server = await startTestServer();
    for (const path of ['/healthz', '/api/v1/events', '/api/v1/usage', '/metrics']) {
      expect((await server.call('PUT', path, { token })).status).toBe(405);
    }
    const { text } = await server.call('GET', '/metrics', { token });
    const series = text.split('\n').filter((line) => /_count{.*status="405"/.test(line));
    expect(series).toHaveLength(1);
    expect(series[0]).toMatch(/method="PUT",route="unmatched",status="405"} 4$/);
  });

  test('another path is 404, and never a page', async () => {
    await using server = await startTestServer();
    for (const path of ['/api/v1/nothing', '/index.html', '/../etc/passwd', '/API/v1/status']) {
      const answer = await server.call('GET', path, { token });
      expect(answer.status).toBe(404);
      expect(answer.json).toHaveProperty('error');
    }
  });
});

test('every answer carries the headers that keep a browser out of trouble', async () => {
  await using server = await startTestServer();
  for (const path of ['/', '/healthz', '/api/v1/status', '/nothing']) {
    const { headers } = await server.call('GET', path, { token });
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none';script-src 'self';style-src 'self';img-src 'self';connect-src 'self';frame-ancestors 'none';base-uri 'none';form-action 'none'",
    );
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.has('x-powered-by')).toBe(false);
  }
});

test('requests are counted by path template, never by what a client writes', async () => {
  await using server = await startTestServer();
  await server.call('GET', '/api/v1/tenants/evil%22%0Aname', { token });
  await server.call('GET', '/api/v1/guess-1', { token });
  const { text } = await server.call('GET', '/metrics');
  expect(text).toContain(
    'meterfeed_http_request_duration_seconds_count{method="GET",route="/api/v1/tenants/{tenant}",status="404"} 1',
  );
  expect(text).toContain('{method="GET",route="unmatched",status="404"} 1');
  expect(text).not.toContain('evil');
});

test('a fault of ours is 500, logged, and its text kept inside', async () => {
  await using server = await startTestServer({
    views: {
      readiness: () => {
        throw new Error('secret detail');
      },
    },
  });
  const answer = await server.call('GET', '/readyz');
  expect(answer.status).toBe(500);
  expect(answer.text).not.toContain('secret detail');
  expect(server.log.join()).toContain('error [http] request failed');
});

test('a fault that every request meets fills no log: one line a minute for each route', async () => {
  await using server = await startTestServer({
    views: {
      readiness: () => {
        throw new Error('secret detail');
      },
    },
  });
  for (let request = 0; request < 5; request += 1) await server.call('GET', '/readyz');
  expect(server.log.filter((line) => line.includes('request failed'))).toHaveLength(1);
});

function withDestinations(change: Partial<DestinationOperations>): DestinationsView {
  return {
    list: () => [webhook],
    summaryOf: () => 'DeadLetters: events refused for good',
    operations: {
      deadLetters: async () => ({ deadLetters: [] }),
      replay: async () => ({ kind: 'replayed', replayed: 0, stillRejected: 0, pending: 0 }),
      discard: async () => ({ kind: 'discarded', discarded: 0 }),
      moveCursor: async (_name, sequence) => ({ kind: 'moved', sequence, warnings: [] }),
      reconcile: async () => ({ kind: 'reconciled', rows: [] }),
      comparePrices: async () => ({ kind: 'unknown-destination' }),
      predictCorrection: async () => ({ state: 'delivered', takesNegative: true }),
      ...change,
    },
  };
}
