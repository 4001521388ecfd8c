import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import type { Ledger, LedgerFailure } from '../ledger/ledger.ts';
import { deriveEventId } from '../model/event-id.ts';
import type { UsageEvent } from '../model/event.ts';
import {
  INGEST_TOKEN,
  NOW,
  startTestServer,
  type TestServer,
  testCluster,
  testSettings,
  quietDiscovery,
} from './testing/test-server.ts';

const event = {
  tenant: 'acme',
  metric: 'tokens_used',
  quantity: 1500,
  window_start: '2026-11-21T09:00:00Z',
  window_end: '2026-11-21T09:01:00Z',
};

function push(server: TestServer, body: unknown, headers: Record<string, string> = {}) {
  return server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body, headers });
}

async function stored(ledger: Ledger): Promise<UsageEvent[]> {
  const page = await ledger.read(0, 10_000);
  if (page.kind === 'failed') throw new Error(page.message);
  return page.events.map((item) => item.event);
}

function minutesFromNow(minutes: number): string {
  return `${new Date(NOW + minutes * 60_000).toISOString().slice(0, 19)}Z`;
}

describe('what is pushed in', () => {
  test.each([
    ['one event', event],
    ['an array', [event]],
    ['{events}', { events: [event] }],
  ])('as %s is durable, complete and named after its sender', async (_form, body) => {
    await using server = await startTestServer();
    const answer = await push(server, body, { 'x-meterfeed-client': 'slurm-exporter' });
    const [recorded] = await stored(server.ledger);
    if (recorded === undefined) throw new Error('nothing recorded');
    expect(answer.status).toBe(200);
    expect(answer.json).toStrictEqual({
      accepted: 1,
      duplicates: 0,
      rejected: [],
      ids: [deriveEventId(recorded)],
    });
    expect(recorded).toMatchObject({
      ...event,
      quantity: '1500',
      unit: 'tokens',
      region: 'eu-central-1',
      source: 'ingest:slurm-exporter',
      recorded_at: '2026-11-21T09:05:00.000Z',
    });
  });

  test('twice counts once, also within one body', async () => {
    await using server = await startTestServer();
    const first = await push(server, [event, event]);
    expect(first.json).toMatchObject({ accepted: 1, duplicates: 1, rejected: [] });
    const again = await push(server, event);
    expect([again.status, again.json]).toMatchObject([200, { accepted: 0, duplicates: 1 }]);
    expect(await stored(server.ledger)).toHaveLength(1);
  });

  test('with the same id and another quantity is rejected, not swallowed', async () => {
    await using server = await startTestServer();
    await push(server, { ...event, id: 'order-7' });
    const answer = await push(server, { ...event, id: 'order-7', quantity: 1501 });
    expect([answer.status, answer.json]).toStrictEqual([
      400,
      {
        accepted: 0,
        duplicates: 0,
        rejected: [
          {
            index: 0,
            id: 'order-7',
            error: 'recorded with another quantity or identity: id: "order-7"',
          },
        ],
        ids: [],
      },
    ]);
  });

  test('is evaluated event by event: the bad ones are named by their place, the good ones stay', async () => {
    await using server = await startTestServer();
    const body = [
      { ...event, metric: 'unheard_of' },
      event,
      { ...event, id: 'svc1_00000000000000000000000000000000' },
      { ...event, quantity: -1 },
      { ...event, dimensions: { billing_mode: 'rented' } },
      null,
    ];
    const { status, json } = await push(server, body);
    expect(status).toBe(200);
    expect(json).toMatchObject({
      accepted: 1,
      rejected: [0, 2, 3, 4, 5].map((index) => ({ index })),
    });
    expect(await stored(server.ledger)).toHaveLength(1);
  });

  test('keeps digits that a double would lose', async () => {
    await using server = await startTestServer();
    const text = JSON.stringify(event).replace('1500', '123456789012.123456789');
    await push(server, text);
    expect((await stored(server.ledger))[0]?.quantity).toBe('123456789012.123456789');
  });
});

describe('nothing is changed or ignored in silence', () => {
  const warningsOf = (json: unknown): unknown => (json as { warnings?: unknown }).warnings;

  test.each([
    ['1e-10', '1e-10'],
    ['0.0000000004', '4e-10'],
    // A double cannot hold it: it would be zero before anybody could see it.
    ['4e-400', '4e-400'],
  ])('a quantity that rounds to zero is refused: %s', async (quantity, spelled) => {
    await using server = await startTestServer();
    const { status, json } = await push(server, JSON.stringify(event).replace('1500', quantity));
    expect(status).toBe(400);
    const error = `rounds to zero: quantity: ${spelled}: the smallest is 0.000000001`;
    expect(json).toMatchObject({ rejected: [{ index: 0, error }] });
    expect(await stored(server.ledger)).toHaveLength(0);
  });

  test('a quantity of more than nine decimals is recorded, and the answer says as what', async () => {
    await using server = await startTestServer();
    const texts = ['0.1234567891', '0.30000000000000004', '1.5000000000000', '12e-9'];
    const body = texts.map((text, index) =>
      JSON.stringify({ ...event, id: `q-${index}` }).replace('1500', text),
    );
    const { status, json } = await push(server, `[${body.join()}]`);
    expect(status).toBe(200);
    expect(warningsOf(json)).toStrictEqual([
      {
        index: 0,
        id: 'q-0',
        warning: 'more than nine decimals: quantity: 0.1234567891: recorded as 0.123456789',
      },
      {
        index: 1,
        id: 'q-1',
        warning: 'more than nine decimals: quantity: 0.30000000000000004: recorded as 0.3',
      },
    ]);
  });

  test('a dimension that the metric does not declare is kept, and the answer says so', async () => {
    await using server = await startTestServer();
    const dimensions = { model: 'm1', modle: 'm2', tenant_cluster: 'c1' };
    const { json } = await push(server, [event, { ...event, id: 'd-1', dimensions }]);
    expect(warningsOf(json)).toStrictEqual([
      {
        index: 1,
        id: 'd-1',
        warning:
          'not declared for metric "tokens_used": dimensions: "modle": kept, but no price can depend on it; declare it in CUSTOM_METRICS or MeteringPolicy spec.customMetrics',
      },
    ]);
    expect((await stored(server.ledger))[1]?.dimensions).toStrictEqual(dimensions);
  });
});

describe('windows', () => {
  test.each([
    [minutesFromNow(5), 200],
    [minutesFromNow(6), 400],
    [minutesFromNow(-7 * 24 * 60), 200],
    [minutesFromNow(-7 * 24 * 60 - 1), 400],
  ])('that end at %s are answered %i: five minutes ahead, RETENTION back', async (end, status) => {
    await using server = await startTestServer();
    const start = `${new Date(Date.parse(end) - 60_000).toISOString().slice(0, 19)}Z`;
    const answer = await push(server, { ...event, window_start: start, window_end: end });
    expect(answer.status).toBe(status);
  });

  test('older than 34 days are refused however long the retention is', async () => {
    await using server = await startTestServer({ environment: { RETENTION: '365d' } });
    const days = (count: number) => minutesFromNow(-count * 24 * 60);
    const old = { ...event, window_start: days(35), window_end: days(34.5) };
    const { json } = await push(server, old);
    expect(json).toMatchObject({
      rejected: [{ error: expect.stringContaining('too old: window_end') }],
    });
    const long = await push(server, { ...event, window_start: days(35) });
    expect(long.text).toContain('too old: window_start');
  });
});

test('accident 26: a window whose ids the ledger may have forgotten is refused, lest it be billed twice', async () => {
  const ledger = createMemoryLedger();
  const stats = () => ({ ...ledger.stats(), horizon: Date.parse(event.window_end) });
  await using server = await startTestServer({ ledger: { ...ledger, stats } });
  const answer = await push(server, event);
  expect([answer.status, answer.text]).toStrictEqual([
    400,
    expect.stringContaining('too old: window_end'),
  ]);
  const next = { ...event, window_start: event.window_end, window_end: '2026-11-21T09:02:00Z' };
  expect((await push(server, next)).status).toBe(200);
});

describe('a collector’s event cannot be pre-empted', () => {
  const collectors = { ...event, metric: 'tenant_gpu_hours' };
  const settings = testSettings();
  const clusters = () => [testCluster('tenant-ns-main', settings)];
  const discovery = quietDiscovery({ clusters });

  test.each([
    { tenant: 'tenant-ns-main' },
    { dimensions: { tenant_cluster: 'tenant-ns-main' } },
    { resource_id: 'tenant-ns-main' },
  ])('by an event about a tenant cluster metered here: %j', async (change) => {
    await using server = await startTestServer({ views: { discovery } });
    const { status, text } = await push(server, { ...collectors, ...change });
    expect(status).toBe(400);
    expect(text).toContain('measured here by the collector');
    expect(await stored(server.ledger)).toHaveLength(0);
  });

  test('but others may push the same metrics, and custom metrics go for everybody', async () => {
    await using server = await startTestServer({ views: { discovery } });
    const body = [collectors, { ...event, tenant: 'tenant-ns-main' }];
    expect((await push(server, body)).json).toMatchObject({ accepted: 2 });
  });

  test('nor while it is not known yet who is metered here', async () => {
    const unknown = quietDiscovery({ known: () => false, lookedAt: () => undefined });
    await using server = await startTestServer({ views: { discovery: unknown } });
    const answer = await push(server, [event, collectors]);
    expect(answer.status).toBe(503);
    expect(answer.headers.get('retry-after')).toBe('5');
    expect(await stored(server.ledger)).toHaveLength(0);
    expect((await push(server, event)).status).toBe(200);
  });

  test('nor before it was looked, after the window, whether there is a new tenant cluster', async () => {
    const ended = Date.parse(event.window_end);
    let lookedAt = ended + 9_999;
    const young = quietDiscovery({ lookedAt: () => lookedAt });
    await using server = await startTestServer({ views: { discovery: young } });
    const about = { ...collectors, dimensions: { tenant_cluster: 'tenant-ns-new' } };
    const early = await push(server, [event, about]);
    expect([early.status, early.headers.get('retry-after')]).toStrictEqual([503, '5']);
    expect(await stored(server.ledger)).toHaveLength(0);
    lookedAt = ended + 10_000;
    expect((await push(server, [event, about])).json).toMatchObject({ accepted: 2 });
  });
});

test('an event takes the place of the sum of a gateway’s requests', async () => {
  await using server = await startTestServer();
  const tokens = { ...event, metric: 'tenant_inference_tokens' };
  const refused = await push(server, tokens);
  expect(refused.status).toBe(400);
  expect(refused.text).toContain('summed from events of gateways');
  expect((await push(server, { ...tokens, id: 'batch-7' })).status).toBe(200);
  expect(await stored(server.ledger)).toHaveLength(1);
  // Only rules sum: a custom metric with one, and no metric without one.
  const metrics = [{ metric: event.metric, dimensions: {} }];
  const cloudEvents = [{ type: 'prompt', metrics }];
  const { settings } = server;
  server.settings = { ...settings, ingest: { ...settings.ingest, cloudEvents } };
  expect((await push(server, event)).text).toContain('summed from events of gateways');
  expect((await push(server, tokens)).status).toBe(200);
});

describe('a metric of the collector under a foreign region', () => {
  const free = { ...event, metric: 'tenant_gpu_hours', tenant: 'gpu-farm', quantity: 0 };

  test.each<Record<string, string>>([{}, { REGION_FROM_NODE: 'true' }])(
    'cannot take the event id of another control plane: %j',
    async (environment) => {
      await using server = await startTestServer({ environment });
      const answer = await push(server, { ...free, region: 'us-east' });
      expect(answer.status).toBe(400);
      expect(answer.text).toContain('not of this control plane: region');
      expect(await stored(server.ledger)).toHaveLength(0);
      const own = [free, { ...free, region: 'eu-central-1', quantity: 1, resource_id: 'n1' }];
      expect((await push(server, own)).json).toMatchObject({ accepted: 2 });
      const declared = { ...event, region: 'us-east' };
      expect((await push(server, declared)).json).toMatchObject({ accepted: 1 });
    },
  );
});

describe('an ingest token with a scope', () => {
  const INGEST = [
    'for-all-1f0c',
    'llm-gateway-77;metrics=tokens_used|tenant_gpu_hours;tenants=acme|globex',
    'one-metric-3a;metrics=tenant_gpu_hours',
    'one-tenant-9b;tenants=acme',
  ].join(',');
  const pushAs = (server: TestServer, token: string, body: unknown) =>
    server.call('POST', '/api/v1/events', { token, body });
  const gpu = { ...event, metric: 'tenant_gpu_hours' };

  test.each([
    ['for-all-1f0c', { ...event, tenant: 'other' }],
    ['llm-gateway-77', [event, gpu, { ...event, tenant: 'globex' }]],
    ['one-metric-3a', { ...gpu, tenant: 'other' }],
    ['one-tenant-9b', [event, gpu]],
  ])('%s pushes what is within it', async (token, body) => {
    await using server = await startTestServer({ environment: { INGEST_TOKEN: INGEST } });
    expect((await pushAs(server, token, body)).status).toBe(200);
  });

  test.each([
    ['llm-gateway-77', { ...event, tenant: 'other' }, 'tenant: "other"', 'tenants='],
    ['one-metric-3a', event, 'metric: "tokens_used"', 'metrics='],
    ['one-tenant-9b', { ...gpu, tenant: 'other' }, 'tenant: "other"', 'tenants='],
  ])(
    '%s pushes nothing beyond it, and gets an answer that says what is missing',
    async (token, body, what, scope) => {
      await using server = await startTestServer({ environment: { INGEST_TOKEN: INGEST } });
      const answer = await pushAs(server, token, [event, gpu, body]);
      expect(answer.status).toBe(403);
      expect(answer.text.replaceAll('\\', '')).toContain(what);
      expect(answer.text).toContain(scope);
      expect(await stored(server.ledger)).toHaveLength(0);
    },
  );

  const idOf = async (server: TestServer, token: string, body: object) => {
    const { status, json } = await pushAs(server, token, { ...body, id: 'order-7' });
    const { accepted, ids } = json as { accepted: number; ids: string[] };
    return { status, accepted, id: ids[0] };
  };

  test('cannot use up or probe the ids of another token', async () => {
    const environment = {
      INGEST_TOKEN: 'a-1;tenants=acme,b-2;tenants=globex,c-3;metrics=tokens_used,all-4',
    };
    await using server = await startTestServer({ environment });
    const globex = { ...event, tenant: 'globex', quantity: 9 };
    const pushes = [
      await idOf(server, 'a-1', event),
      await idOf(server, 'b-2', globex),
      await idOf(server, 'c-3', { ...event, quantity: 3 }),
      await idOf(server, 'all-4', { ...event, quantity: 4 }),
    ];
    expect(pushes.map(({ status, accepted }) => [status, accepted])).toStrictEqual(
      pushes.map(() => [200, 1]),
    );
    const recorded = (await stored(server.ledger)).map(({ id, quantity }) => [id, quantity]);
    const ids = pushes.map(({ id }) => id);
    expect(recorded).toStrictEqual([
      [ids[0], '1500'],
      [ids[1], '9'],
      [ids[2], '3'],
      ['order-7', '4'],
    ]);
    // `printf 'acme\0\0order-7' | sha256sum`, 32 digits.
    expect(ids[0]).toBe('ing1_91f44399140543f187e269218075447d');
    expect(new Set(ids).size).toBe(4);
  });

  test('repeats an event of its own once, and learns when another quantity has the id', async () => {
    await using server = await startTestServer({ environment: { INGEST_TOKEN: INGEST } });
    const own = { ...event, id: 'order-7' };
    await pushAs(server, 'one-tenant-9b', own);
    const again = await pushAs(server, 'one-tenant-9b', own);
    expect(again.json).toMatchObject({ accepted: 0, duplicates: 1 });
    const other = await pushAs(server, 'one-tenant-9b', { ...own, quantity: 1 });
    expect(other.status).toBe(400);
    expect(await stored(server.ledger)).toHaveLength(1);
  });

  test('is no part of the token that is sent', async () => {
    await using server = await startTestServer({ environment: { INGEST_TOKEN: INGEST } });
    const answer = await pushAs(server, 'one-tenant-9b;tenants=acme', event);
    expect(answer.status).toBe(401);
  });
});

describe('bodies that are not understood', () => {
  test.each([
    ['', 'empty: body: send JSON'],
    ['{"tenant":', 'not valid JSON: body'],
    ['[]', 'no events: body'],
    ['7', 'not an event: body: 7'],
    ['null', 'not an event: body: null'],
    ['{"events":{}}', 'not an array: events: {}'],
    [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'nested too deeply: body'],
    [`{"metric":${'['.repeat(50)}${']'.repeat(50)}}`, 'nested too deeply: body'],
    [JSON.stringify(Array.from({ length: 5001 }, () => 0)), 'too many events: body: 5001'],
    [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 'not UTF-8: body'],
  ])('%#: 400 with the reason', async (body, error) => {
    await using server = await startTestServer();
    const answer = await push(server, body);
    expect(answer.status).toBe(400);
    expect(answer.json).toMatchObject({ error: expect.stringContaining(error) });
  });

  test.each<Record<string, string>>([
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/x-www-form-urlencoded' },
    { 'content-encoding': 'gzip' },
  ])('%j is 415', async (headers) => {
    await using server = await startTestServer();
    expect((await push(server, event, headers)).status).toBe(415);
  });

  test('keys that reach into prototypes change nothing but the answer', async () => {
    await using server = await startTestServer();
    const poison = '{"__proto__":{"polluted":"yes"},"constructor":{"prototype":{"polluted":"yes"}}';
    const rest = JSON.stringify(event).slice(1);
    const answer = await push(
      server,
      `[${poison},${rest},${poison},"dimensions":{"__proto__":"x"},${rest}]`,
    );
    expect(answer.json).toMatchObject({ accepted: 1, rejected: [{ index: 1 }] });
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test.each(['', 'A', 'a b', 'x'.repeat(65), 'ä'])('client name %j is 400', async (name) => {
    await using server = await startTestServer();
    const headers = { 'x-meterfeed-client': Buffer.from(name).toString('latin1') };
    expect((await push(server, event, headers)).status).toBe(400);
  });
});

describe('when the ledger cannot take more', () => {
  function failing(cause: LedgerFailure['cause']): Ledger {
    const message = 'write failed: segment 3: "ENOSPC"';
    return { ...createMemoryLedger(), append: async () => ({ kind: 'failed', cause, message }) };
  }

  test.each([
    ['retryable', '1'],
    ['full', '60'],
    ['fenced', '60'],
    ['corrupt', '60'],
  ] as const)('%s: 503, and nothing is acknowledged', async (cause, seconds) => {
    await using server = await startTestServer({ ledger: failing(cause) });
    const answer = await push(server, event);
    expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([503, seconds]);
    expect(answer.text).toContain('ledger write failed');
  });

  test('ingest is refused before the body is read once the volume is nearly full', async () => {
    const ledger = createMemoryLedger();
    const disk = { level: 'ingest-refused', usedRatio: 0.9, retentionShortened: true } as const;
    const stats = () => ({ ...ledger.stats(), disk });
    await using server = await startTestServer({ ledger: { ...ledger, stats } });
    const answer = await push(server, '{broken');
    expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([503, '60']);
  });
});

test('events are counted by client and outcome, and the clients are bounded', async () => {
  await using server = await startTestServer();
  await push(server, [event, event, {}], { 'x-meterfeed-client': 'one' });
  const { text } = await server.call('GET', '/metrics');
  for (const outcome of ['accepted', 'duplicate', 'rejected']) {
    expect(text).toContain(`meterfeed_ingested_events_total{client="one",outcome="${outcome}"} 1`);
  }
});
