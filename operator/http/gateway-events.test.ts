import { gzipSync } from 'node:zlib';
import { CloudEvent, emitterFor, HTTP, httpTransport, Mode } from 'cloudevents';
import { describe, expect, test } from 'vitest';
import { BudgetAccount } from '../billing/budgets/account.ts';
import { budgetLeft } from '../billing/budgets/budget-left.ts';
import { planPrices } from '../billing/usage/plan-prices.ts';
import { AccessCheck } from '../intake/access-check.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { bookOf, flat, priceOf } from '../model/pricing/testing/price-books.ts';
import {
  type GatewayServer,
  type GatewayServerOptions,
  startGatewayServer,
  tokensOf,
} from './testing/gateway-server.ts';
import {
  API_TOKEN,
  INGEST_TOKEN,
  startTestServer,
  type TestServer,
  testClock,
} from './testing/test-server.ts';

const IN_PATH = 'in-path-canary-77d0c2a94e51';
const OF_ACME = 'of-acme-canary-0d11';
const TOKENS = [
  INGEST_TOKEN,
  `${IN_PATH};use=events|access|path`,
  `${OF_ACME};tenants=acme`,
  `of-gpus-canary-0d11;metrics=tenant_gpu_hours`,
].join(',');
const METRIC = 'tenant_inference_tokens';
const STRUCTURED = 'application/cloudevents+json';
const BATCHED = 'application/cloudevents-batch+json';

function startGateway(options: GatewayServerOptions = {}): Promise<GatewayServer> {
  const environment = { INGEST_TOKEN: TOKENS, ...options.environment };
  return startGatewayServer({ ...options, environment });
}

const LITELLM = {
  specversion: '1.0',
  type: 'litellm_tokens',
  id: 'chatcmpl-1',
  time: '2026-11-21T09:04:27.123456+00:00',
  subject: 'acme',
  source: 'litellm-proxy',
  data: {
    model: 'gpt-4o',
    cost: 0.000123,
    prompt_tokens: 12,
    completion_tokens: 7,
    total_tokens: 19,
  },
};

const PRAXIS = {
  specversion: '1.0',
  id: 'e-1',
  source: 'ai-gateway',
  type: 'inference.tokens.used',
  subject: 'acme',
  time: '2026-11-21T09:04:27.123456789+00:00',
  datacontenttype: 'application/json',
  data: {
    user: 'acme',
    group: '',
    subscription: '',
    provider: 'vllm',
    model: 'llama-3.3-70b',
    duration_ms: 812,
    user_agent: 'curl/8',
    prompt_tokens: 120,
    completion_tokens: 40,
    total_tokens: 160,
    cached_input_tokens: 100,
    cache_creation_tokens: 0,
    reasoning_tokens: 8,
  },
};

const ENVOY = {
  schema_version: 'v1',
  event_id: 'r-1|route|backend',
  emitted_at: Date.parse('2026-11-21T09:04:27.123Z'),
  request_id: 'r-1',
  status: 'succeeded',
  status_code: 200,
  provider: 'openai',
  backend: 'b1',
  model_requested: 'm',
  model_response: 'm-2026',
  input_tokens: 90,
  output_tokens: 40,
  cached_input_tokens: 30,
  cache_write_input_tokens: 0,
  reasoning_tokens: 8,
  attributes: { 'tenant.id': 'acme' },
};

const KONG = ['request', 'response'].map((type, index) => ({
  specversion: '1.0',
  id: `k-${type}`,
  source: 'kong',
  type: 'kong.llm_request',
  subject: 'consumer:acme',
  time: '2026-11-21T09:04:27Z',
  data: { tokens: 12 - 5 * index, type, model: 'gpt-4o', provider: 'openai' },
}));

/** One event of LiteLLM with another id. */
function numbered(id: string, change: object = {}): object {
  return { ...LITELLM, id, ...change };
}

describe('the request of a gateway as the gateway sends it', () => {
  const bearer = { authorization: `Bearer ${INGEST_TOKEN}` };
  const events = '/api/v1/events';
  const below = `/ingest/${IN_PATH}${events}`;

  test.each<[string, string, Record<string, string>, unknown, object]>([
    [
      'LiteLLM',
      events,
      { ...bearer, 'content-type': STRUCTURED },
      LITELLM,
      { input: '12', output: '7' },
    ],
    [
      'praxis, without a token',
      below,
      { 'content-type': 'application/json' },
      PRAXIS,
      { input: '20', cache_read: '100', output: '32', reasoning: '8' },
    ],
    [
      'Envoy AI Gateway, without a token',
      below,
      { 'content-type': 'application/json' },
      ENVOY,
      { input: '90', cache_read: '30', output: '32', reasoning: '8' },
    ],
    ['Kong', events, { ...bearer, 'content-type': BATCHED }, KONG, { input: '12', output: '7' }],
    [
      'an SDK in binary mode, with parameters of the media type',
      events,
      {
        ...bearer,
        'content-type': 'application/json; charset=utf-8',
        'ce-specversion': '1.0',
        'ce-id': 'b-1',
        'ce-source': '/sdk',
        'ce-type': 'litellm_tokens',
        'ce-subject': 'acme',
        'ce-time': LITELLM.time,
      },
      LITELLM.data,
      { input: '12', output: '7' },
    ],
  ])('counts once and is answered with 204: %s', async (_name, path, headers, body, tokens) => {
    await using server = await startGateway();
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const answer = await server.call('POST', path, { headers, body });
      expect([answer.status, answer.text]).toStrictEqual([204, '']);
    }
    expect(tokensOf(server, 'acme')).toStrictEqual(tokens);
    expect(await server.metrics.metrics()).toContain(
      `meterfeed_ingested_events_total{client="gateway",outcome="accepted"} ${Array.isArray(body) ? 2 : 1}`,
    );
  });

  test('with types that no rule names, health checks and an empty batch is taken and ignored', async () => {
    await using server = await startGateway();
    const body = [
      numbered('x', { type: 'kong.api_request' }),
      numbered('y', { subject: 'litellm:/health/services' }),
    ];
    for (const batch of [body, []]) {
      const headers = { 'content-type': BATCHED };
      const sent = { token: INGEST_TOKEN, headers, body: batch };
      expect((await server.call('POST', events, sent)).status).toBe(204);
    }
    expect(server.intake.stats().entries).toBe(0);
    expect(await server.metrics.metrics()).toContain('outcome="ignored"} 2');
  });
});

function send(server: TestServer, body: unknown, token = INGEST_TOKEN) {
  const headers = { 'content-type': Array.isArray(body) ? BATCHED : STRUCTURED };
  return server.call('POST', '/api/v1/events', { token, headers, body });
}

describe('the CloudEvents SDK as the client', () => {
  const headers = { authorization: `Bearer ${INGEST_TOKEN}` };
  test.each([Mode.BINARY, Mode.STRUCTURED])('in %s mode counts once', async (mode) => {
    await using server = await startGateway();
    const url = `http://127.0.0.1:${server.port}/api/v1/events`;
    const emit = emitterFor(httpTransport(url), { binding: HTTP, mode });
    for (const id of ['1', '1', '2']) await emit(new CloudEvent({ ...LITELLM, id }), { headers });
    expect(tokensOf(server, 'acme')).toStrictEqual({ input: '24', output: '14' });
  });

  test('in batched mode, which it reads but does not write, counts once', async () => {
    await using server = await startGateway();
    const events = ['1', '1', '2'].map((id) => new CloudEvent({ ...LITELLM, id }));
    const sent = { headers: { ...headers, 'content-type': BATCHED }, body: `[${events.join()}]` };
    expect((await server.call('POST', '/api/v1/events', sent)).status).toBe(204);
    expect(tokensOf(server, 'acme')).toStrictEqual({ input: '24', output: '14' });
  });
});

describe('a bad event', () => {
  test('never keeps its neighbours out, and is kept with its reason', async () => {
    await using server = await startGateway();
    const { status, json } = await send(server, [
      numbered('1'),
      numbered('2', { subject: undefined }),
      numbered('3', { data: { model: 'm', prompt_tokens: -1, completion_tokens: 1 } }),
      'nonsense',
      numbered('4', { time: '2026-11-20T09:00:00Z' }),
      numbered('5'),
    ]);
    expect(status).toBe(200);
    const { refused, ...counts } = json as {
      readonly refused: readonly { readonly error: string }[];
    };
    expect(counts).toStrictEqual({ accepted: 2, repeated: 0, ignored: 0 });
    expect(refused).toHaveLength(4);
    expect(tokensOf(server, 'acme')).toStrictEqual({ input: '24', output: '14' });
    const kept = await server.call('GET', '/api/v1/intake?limit=1', { token: API_TOKEN });
    expect(kept.json).toMatchObject({ ready: true, remembered: 2, total: 4 });
    expect((kept.json as { dead_letters: unknown[] }).dead_letters).toHaveLength(1);
    const { json: all } = await server.call('GET', '/api/v1/intake', { token: API_TOKEN });
    const letters = (all as { dead_letters: { readonly error: string }[] }).dead_letters;
    expect(letters.map(({ error }) => error).toSorted()).toStrictEqual(
      refused.map(({ error }) => error).toSorted(),
    );
  });

  test('that repeats an id with another quantity is refused; the first counts', async () => {
    await using server = await startGateway();
    await send(server, numbered('1'));
    const more = { data: { ...LITELLM.data, prompt_tokens: 13 } };
    const { status, json } = await send(server, numbered('1', more));
    expect([status, json]).toMatchObject([
      200,
      { accepted: 0, refused: [{ subject: 'acme', source: 'litellm-proxy', id: '1' }] },
    ]);
    const kept = await server.call('GET', '/api/v1/intake', { token: API_TOKEN });
    expect(kept.json).toMatchObject({ dead_letters: [{ source: 'litellm-proxy', id: '1' }] });
    expect(tokensOf(server, 'acme')).toStrictEqual({ input: '12', output: '7' });
  });

  test('is one that the token does not allow, by its tenant or its metric', async () => {
    await using server = await startGateway();
    const mixed = [numbered('1'), numbered('2', { subject: 'globex' })];
    const { status, json } = await send(server, mixed, OF_ACME);
    expect([status, json]).toMatchObject([
      200,
      {
        accepted: 1,
        refused: [{ id: '2', subject: 'globex', error: 'token not for this tenant: "globex"' }],
      },
    ]);
    const other = await send(server, numbered('3'), 'of-gpus-canary-0d11');
    expect(other.json).toMatchObject({ accepted: 0, refused: [{}] });
    expect(tokensOf(server, 'globex')).toStrictEqual({});
    expect((await send(server, numbered('4'), 'wrong')).status).toBe(401);
    expect((await send(server, numbered('4'), API_TOKEN)).status).toBe(403);
  });
});

describe('nothing is taken, and the gateway must repeat', () => {
  test('before the records and rules are read, not even what no rule names', async () => {
    await using server = await startGateway({ isLoaded: false });
    for (const body of [LITELLM, numbered('x', { type: 'unknown' })]) {
      const answer = await send(server, body);
      expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([503, '5']);
    }
  });

  test('when the ledger does not write', async () => {
    const ledger = createMemoryLedger();
    let isAway = false;
    const away: Ledger = Object.create(ledger, {
      writeRecords: {
        value: async (...records: Parameters<Ledger['writeRecords']>) =>
          isAway
            ? { kind: 'failed', cause: 'retryable', message: 'away' }
            : ledger.writeRecords(...records),
      },
    });
    await using server = await startGateway({ ledger: away });
    isAway = true;
    const answer = await send(server, LITELLM);
    expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([503, '1']);
    isAway = false;
    expect((await send(server, LITELLM)).status).toBe(204);
    expect(tokensOf(server, 'acme')).toStrictEqual({ input: '12', output: '7' });
  });

  test('on a volume that is nearly full', async () => {
    const ledger = createMemoryLedger();
    const stats = ledger.stats();
    const disk = { ...stats.disk, level: 'ingest-refused' } as const;
    await using server = await startGateway({
      ledger: { ...ledger, stats: () => ({ ...stats, disk }) },
    });
    const answer = await send(server, LITELLM);
    expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([503, '60']);
    expect(server.intake.stats().entries).toBe(0);
  });

  test('beyond the events of a second, however few requests carry them', async () => {
    await using server = await startGateway({ limits: { eventsPerSecond: 5 } });
    const six = Array.from({ length: 6 }, (_, index) => numbered(`${index}`));
    const answer = await send(server, six);
    expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([429, '1']);
    expect(server.intake.stats().entries).toBe(0);
  });
});

test('a gateway that sends one event a request is not limited by requests; our own events are', async () => {
  await using server = await startGateway({ limits: { requestsPerSecond: 1 } });
  for (let index = 0; index < 10; index += 1) {
    expect((await send(server, numbered(`${index}`))).status).toBe(204);
  }
  const statuses = new Set<number>();
  for (let index = 0; index < 20; index += 1) {
    const sent = { token: INGEST_TOKEN, body: {} };
    statuses.add((await server.call('POST', '/api/v1/events', sent)).status);
  }
  expect([...statuses].toSorted((a, b) => a - b)).toStrictEqual([400, 429]);
});

describe('a hostile body', () => {
  const deep = `{"specversion":"1.0","id":"1","source":"s","type":"litellm_tokens","data":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
  const many = JSON.stringify(Array.from({ length: 5001 }, (_, index) => numbered(`${index}`)));
  test.each<[string, number, string, unknown, Record<string, string>?]>([
    ['no JSON', 400, STRUCTURED, '{"specversion":'],
    ['nothing', 400, STRUCTURED, ''],
    ['bytes that are no text', 400, STRUCTURED, Buffer.from([0xff, 0xfe])],
    ['an object where an array belongs', 400, BATCHED, '{}'],
    ['nested deeply', 400, STRUCTURED, deep],
    ['more events than a request may have', 413, BATCHED, many],
    ['too large', 413, STRUCTURED, Buffer.alloc(10 * 1024 * 1024 + 1, ' ')],
    ['compressed', 415, STRUCTURED, gzipSync('{}'), { 'content-encoding': 'gzip' }],
    ['a page', 415, 'text/html', '<p>'],
    ['Avro', 415, 'application/cloudevents+avro', 'x'],
    ['a prototype', 200, STRUCTURED, '{"__proto__":{"specversion":"1.0"},"constructor":1}'],
    ['an array of nothing', 200, BATCHED, '[null,1,"x",[],{}]'],
  ])('is refused and leaves nothing behind: %s', async (_name, expected, type, body, more) => {
    await using server = await startGateway();
    const headers = { 'content-type': type, ...more };
    const answer = await server.call('POST', '/api/v1/events', {
      token: INGEST_TOKEN,
      headers,
      body,
    });
    expect(answer.status).toBe(expected);
    expect(server.intake.stats()).toMatchObject({ entries: 0, openSums: 0 });
    expect(server.log.join('\n')).not.toContain('request failed');
  });
});

test('praxis checks, reports, and is refused once the reported tokens have used the balance up', async () => {
  const prices = [priceOf(METRIC, flat(0.01))];
  const counts = { kind: 'money', currency: 'EUR' } as const;
  const period = { from: 0, to: Number.POSITIVE_INFINITY };
  const pricesOf = planPrices([bookOf(prices)], () => 'tenant-standard');
  const account = new BudgetAccount({ tenant: 'acme', counts, period, pricesOf });
  const prepaid = { counts, amount: 0n, period: { kind: 'prepaid' }, thresholds: [] } as const;
  const stored = { budget: { ...prepaid, atLimit: 'suspend' }, account } as const;
  const ledger = createMemoryLedger();
  const { intake, ...server } = await startGateway({ ledger });
  const access = new AccessCheck({
    budgets: {
      staleMs: 0,
      position: 0,
      left: (_tenant, open) =>
        budgetLeft(
          { ...stored, credited: 2n * 10n ** 21n },
          { open, state: 'active', maySuspend: true },
          testClock.now(),
        ),
    },
    openUsage: (tenant) => intake.openSums(tenant),
    isKnown: () => true,
    billingState: () => ({ state: 'active', reason: '', manual: false }),
    isSpared: () => false,
  });
  await server.close();
  await using praxis = await startTestServer({
    ledger,
    environment: { INGEST_TOKEN: TOKENS },
    views: { intake, access },
  });
  const url = `/ingest/${IN_PATH}/api/v1/customers/acme/entitlements/inference-tokens/value?model=`;
  const question = async () => (await praxis.call('GET', url)).json;
  const report = async (id: string) => {
    const headers = { 'content-type': 'application/json' };
    const body = { ...PRAXIS, id };
    return (await praxis.call('POST', `/ingest/${IN_PATH}/api/v1/events`, { headers, body }))
      .status;
  };
  expect(await question()).toMatchObject({ hasAccess: true, balance: 2, usage: 0 });
  // A request has 160 tokens at one cent.
  expect(await report('one')).toBe(204);
  expect(await report('one')).toBe(204);
  expect(await question()).toMatchObject({ hasAccess: true, balance: 0.4, usage: 1.6 });
  expect(await report('two')).toBe(204);
  expect(await question()).toMatchObject({
    hasAccess: false,
    reason: 'usage_limit_reached',
    balance: 0,
    usage: 3.2,
    overage: 1.2,
  });
});
