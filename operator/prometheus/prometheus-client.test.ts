import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Settings } from '../settings/settings.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { PrometheusClient } from './prometheus-client.ts';
import { type FakePrometheus, queryError, startFakePrometheus } from './testing/fake-prometheus.ts';
import { settingsOf } from './testing/life.ts';

const AT = 1_772_366_460_000;

let prometheus: FakePrometheus;
let token: string | Error = 'file-token';
const clients: PrometheusClient[] = [];
beforeEach(async () => {
  prometheus = await startFakePrometheus(() => [[{ job: 'a' }, '1.5e+09']]);
  token = 'file-token';
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await prometheus.close();
});

function clientOf(
  environment: Readonly<Record<string, string>> = {},
  url = prometheus.url,
): PrometheusClient {
  const { prometheus: settings }: Settings = settingsOf({ PROMETHEUS_URL: url, ...environment });
  const client = new PrometheusClient({
    outbound: createOutbound({
      registry: new Registry(),
      clock: systemClock,
      userAgent: 'meterfeed/test',
    }),
    url: settings.url ?? '',
    settings,
    readText: async () => {
      if (token instanceof Error) throw token;
      return token;
    },
    connections: 2,
  });
  clients.push(client);
  return client;
}

/** The Authorization header that a query carried. */
async function authorizationOf(
  environment: Readonly<Record<string, string>>,
  url?: string,
): Promise<unknown> {
  await clientOf(environment, url).query('up', AT);
  return prometheus.queries.at(-1)?.headers['authorization'];
}

describe('a query', () => {
  test('is posted below the URL, however long it is and whatever is in it', async () => {
    const long = `sum({a="${'x&=+%\u00e4 '.repeat(5_000)}"})`;
    const client = clientOf({}, `${prometheus.url}/api/prom/`);
    expect(await client.query(long, AT)).toEqual({
      kind: 'vector',
      samples: [{ labels: { job: 'a' }, value: '1.5e+09' }],
      malformed: [],
    });
    expect(prometheus.queries).toMatchObject([
      { method: 'POST', url: '/api/prom/api/v1/query', query: long, time: '1772366460' },
    ]);
  });

  test('carries the headers of PROMETHEUS_HEADERS', async () => {
    await clientOf({ PROMETHEUS_HEADERS: 'X-Scope-OrgID=7,X-Other=a=b' }).query('up', AT);
    expect(prometheus.queries[0]?.headers).toMatchObject({
      'x-scope-orgid': '7',
      'x-other': 'a=b',
    });
  });
});

describe('of several credentials', () => {
  const file = { PROMETHEUS_BEARER_TOKEN_FILE: '/token' };

  test('those in the URL are sent as Basic authorization and not as part of it', async () => {
    const url = prometheus.url.replace('http://', 'http://user%40x:p%2Fw@');
    expect(await authorizationOf({}, url)).toBe(
      `Basic ${Buffer.from('user@x:p/w').toString('base64')}`,
    );
    expect(prometheus.queries[0]?.url).toBe('/api/v1/query');
  });

  test('the token file wins over the URL, and a header over both', async () => {
    const url = prometheus.url.replace('http://', 'http://user:password@');
    expect(await authorizationOf(file, url)).toBe('Bearer file-token');
    const headers = { PROMETHEUS_HEADERS: 'authorization=Token of-header' };
    expect(await authorizationOf({ ...file, ...headers }, url)).toBe('Token of-header');
  });

  test('a rotated token is used from the next query on', async () => {
    const client = clientOf(file);
    await client.query('up', AT);
    token = ' second-token\n';
    await client.query('up', AT);
    expect(prometheus.queries.map(({ headers }) => headers['authorization'])).toEqual([
      'Bearer file-token',
      'Bearer second-token',
    ]);
  });

  test.each([
    [new Error('gone'), 'PROMETHEUS_BEARER_TOKEN_FILE cannot be read: "/token"'],
    ['', 'PROMETHEUS_BEARER_TOKEN_FILE holds no token: "/token"'],
    ['a token\nof two lines', 'PROMETHEUS_BEARER_TOKEN_FILE holds no token: "/token"'],
  ])('a token that cannot be had (%s) sends nothing', async (content, reason) => {
    token = content;
    expect(await clientOf(file).query('up', AT)).toEqual({
      kind: 'failed',
      cause: 'server',
      reason,
    });
    expect(prometheus.queries).toEqual([]);
  });

  test('none is repeated in a reason, even when the server repeats it', async () => {
    prometheus.answer = ({ headers }) =>
      queryError(400, 'bad_data', `you sent ${String(headers['authorization'])}`);
    const outcome = await clientOf(file).query('up', AT);
    expect(JSON.stringify(outcome)).not.toContain('file-token');
    expect(outcome).toMatchObject({ reason: expect.stringContaining('you sent ***') });
  });

  test('no part of one is repeated where a reason is cut to its length', async () => {
    const key = 'canary-4f1d'.repeat(5);
    for (const status of [200, 422]) {
      prometheus.answer = () => queryError(status, 'execution', `${'x'.repeat(270)}${key}`);
      const outcome = await clientOf({ PROMETHEUS_HEADERS: `X-Key=${key}` }).query('up', AT);
      expect(outcome).toMatchObject({ kind: 'failed', cause: 'query' });
      expect(JSON.stringify(outcome)).not.toContain('canary');
    }
  });
});

describe('an answer that must not be charged', () => {
  const success = (rest: object): { status: number; body: string } => ({
    status: 200,
    body: JSON.stringify({
      status: 'success',
      data: { resultType: 'vector', result: [] },
      ...rest,
    }),
  });

  test.each([
    ['a login page', { status: 200, body: '<html>' }, 'server', 'not one of a Prometheus API'],
    ['a redirect', { status: 302, body: '', headers: { location: '/' } }, 'server', 'not followed'],
    ['an answer of another API', { status: 200, body: '{}' }, 'server', 'not one of'],
    ['wrong credentials', { status: 403, body: 'no' }, 'server', 'status 403'],
    ['an unknown address', { status: 404, body: '404 page not found' }, 'server', 'status 404'],
    [
      'a broken query',
      queryError(400, 'bad_data', 'parse error'),
      'query',
      'bad_data: parse error',
    ],
    ['a query too long', { status: 414, body: '' }, 'query', 'status 414'],
    ['a time-out', queryError(503, 'timeout', 'timed out'), 'query', 'timeout: timed out'],
    ['an outage', queryError(500, 'internal', 'disk'), 'server', 'internal: disk'],
    ['a warning', success({ warnings: ['store is missing'] }), 'query', 'partial answer: store'],
    ['a part', success({ isPartial: true }), 'query', 'partial answer'],
    ['a matrix', success({ data: { resultType: 'matrix', result: [] } }), 'query', 'a matrix'],
    ['no data', success({ data: null }), 'query', 'no data'],
    [
      'too many rows',
      success({ data: { resultType: 'vector', result: Array.from({ length: 10_001 }, () => 1) } }),
      'query',
      '10001 rows',
    ],
    ['too many bytes', { status: 200, body: `"${'x'.repeat(5_000_000)}"` }, 'query', 'above'],
    ['a connection cut', 'cut', 'server', 'connection'],
  ] as const)('%s', async (_, answer, cause, words) => {
    prometheus.answer = () => answer;
    const outcome = await clientOf().query('up', AT);
    expect(outcome).toMatchObject({
      kind: 'failed',
      cause,
      reason: expect.stringContaining(words),
    });
    expect(prometheus.queries).toHaveLength(1);
  });

  test('is not one that only carries a remark, or a scalar', async () => {
    prometheus.answer = () => success({ warnings: ['PromQL info: metric might not be a counter'] });
    expect(await clientOf().query('up', AT)).toMatchObject({ kind: 'vector', samples: [] });
    prometheus.answer = () => success({ data: { resultType: 'scalar', result: [1, '7'] } });
    expect(await clientOf().query('7', AT)).toMatchObject({
      samples: [{ labels: {}, value: '7' }],
    });
  });

  test('for one malformed row leaves the others', async () => {
    const result = [
      { metric: {}, value: [1, '2'] },
      { metric: {}, histogram: [1, {}] },
      { metric: { a: 1 }, value: [1, '2'] },
      { metric: {}, value: [1, 2] },
      null,
    ];
    prometheus.answer = () => success({ data: { resultType: 'vector', result } });
    const outcome = await clientOf().query('up', AT);
    expect(outcome).toMatchObject({ samples: [{ labels: {}, value: '2' }] });
    expect(outcome.kind === 'vector' && outcome.malformed).toHaveLength(4);
  });
});
