import { afterEach, describe, expect, test } from 'vitest';
import { Secret } from '../../model/secret.ts';
import {
  type Responder,
  startTestServer,
  type HttpTestServer,
} from '../../outbound/testing/test-server.ts';
import { createTestContext } from '../testing/context.ts';
import { type ApiAnswer, failedStep, reasonOf, type Vendor } from './answer.ts';
import { JsonApi, listPages } from './json-api.ts';

const { signal } = new AbortController();
const VENDOR: Vendor = {
  title: 'Invented API',
  credential: 'API key',
  notTheirs: { kind: 'blocked', reason: 'not theirs' },
  readRefusal: (answer) => {
    const details = answer.body ?? {};
    const { status } = answer;
    return { kind: 'refused', status, code: 'no', details, reason: reasonOf(answer, 'no', '') };
  },
  storesError: (_, status) => status >= 500,
};

const open: { close(): Promise<void> }[] = [];
let server: HttpTestServer;

afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

async function start(
  answer: Responder,
  vendor: Partial<Vendor> = {},
  options: Partial<ConstructorParameters<typeof JsonApi>[0]> = {},
): Promise<JsonApi> {
  server = await startTestServer(answer);
  const { outbound, clock } = createTestContext();
  const api = new JsonApi({
    name: 'invented',
    url: server.url,
    credential: new Secret('key'),
    outbound,
    clock,
    vendor: { ...VENDOR, ...vendor },
    headers: {},
    ...options,
  });
  open.push(api, server);
  return api;
}

function answering(status: number, body = '{}', headers: Record<string, string> = {}): Responder {
  return (_, response) => void response.writeHead(status, headers).end(body);
}

function get(api: JsonApi, path = '/things'): Promise<ApiAnswer> {
  return api.request({ method: 'GET', path, signal });
}

describe('an answer', () => {
  test.each([
    [200, '{"a":1}', { kind: 'ok', body: { a: 1 } }],
    [200, '[]', { kind: 'blocked', reason: 'not theirs' }],
    [200, '<html>', { kind: 'blocked', reason: 'not theirs' }],
    [302, '', { kind: 'blocked', reason: 'Invented API error 302: redirects are not followed' }],
    [401, '{}', { kind: 'blocked', reason: 'Invented API error 401: check the API key' }],
    [
      403,
      '{}',
      { kind: 'blocked', reason: 'Invented API error 403: the API key lacks a permission' },
    ],
    [404, '{}', { kind: 'refused', status: 404, reason: 'Invented API error 404: no' }],
    [408, '{}', { kind: 'retry', reason: 'Invented API error 408' }],
    [422, '{"b":2}', { kind: 'refused', status: 422, details: { b: 2 } }],
    [429, '{}', { kind: 'retry', reason: 'Invented API error 429: rate limit' }],
    [503, '<html>', { kind: 'retry', reason: 'Invented API error 503' }],
  ])('%i %s is read as %j', async (status, body, expected) => {
    expect(await get(await start(answering(status, body)))).toMatchObject(expected);
  });

  test('of more values than are read in a moment is nobody’s, instead of holding everything up', async () => {
    const depth = 160_000;
    const deep = `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
    expect(await get(await start(answering(200, deep)))).toMatchObject({ reason: 'not theirs' });
    const long = JSON.stringify({ a: ','.repeat(140_000) });
    expect(await get(await start(answering(200, long)))).toMatchObject({ kind: 'ok' });
  });

  test('requests a pause, by Retry-After or by the vendor’s own field', async () => {
    const busy = answering(503, '{}', { 'retry-after': '7', 'x-wait': '3' });
    expect(await get(await start(busy))).toMatchObject({ kind: 'retry', afterMs: 7_000 });
    const own = {
      waitMs: (headers: Readonly<Record<string, string>>) => Number(headers['x-wait']),
    };
    expect(await get(await start(busy, own))).toMatchObject({ kind: 'retry', afterMs: 3 });
  });

  test('that is incomplete is requested again, and its reason lacks the query', async () => {
    const api = await start((_, response, socket) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{"a":', () => socket.destroy());
    });
    expect(await get(api, '/things?secret=1')).toStrictEqual({
      kind: 'retry',
      reason: 'HTTP GET /things: the answer is incomplete',
    });
  });

  test('may be anything where the vendor says so', async () => {
    const anySuccess = { anySuccess: true } as const;
    expect(await get(await start(answering(200, ''), anySuccess))).toMatchObject({
      kind: 'ok',
      body: {},
      value: undefined,
    });
    expect(await get(await start(answering(200, '[1]'), anySuccess))).toMatchObject({ value: [1] });
    expect(await get(await start(answering(200, 'x'), anySuccess))).toMatchObject({
      kind: 'blocked',
    });
  });

  test('of nobody leaves the request to be made again', async () => {
    const api = await start((_, __, socket) => void socket.destroy());
    expect(await get(api)).toMatchObject({ kind: 'retry' });
  });
});

describe('a creation', () => {
  const request = { method: 'POST', path: '/things', body: '{"a":1}', signal } as const;
  const keys = (): readonly unknown[] =>
    server.requests.map(({ headers }) => headers['idempotency-key']);

  test('has the same key in every process, and another for anything else', async () => {
    const first = await start(answering(200));
    await first.create(request);
    const [key] = keys();
    const second = await start(answering(429));
    await second.create(request);
    await second.create(request);
    await second.create({ ...request, body: '{"a":2}' });
    expect(keys()).toStrictEqual([key, key, expect.not.stringContaining(String(key))]);
  });

  test('takes a new key after an error that is stored, and when what it made is gone', async () => {
    const api = await start(answering(500));
    await api.create(request);
    await api.create(request);
    api.makeAgain(request);
    await api.create(request);
    const [key] = keys();
    expect(keys()).toStrictEqual([key, `${String(key)}-2`, `${String(key)}-4`]);
  });

  test('is distinguished by its action, whose key starts over once it is done', async () => {
    let status = 500;
    const api = await start((_, response) => void response.writeHead(status).end('{}'));
    await api.create(request, 'event-1');
    status = 200;
    await api.create(request, 'event-1');
    await api.create(request, 'event-1');
    expect(keys()).toStrictEqual(['event-1', 'event-1-2', 'event-1']);
  });
});

test('nothing is sent while the rate limit waits, and nothing after it was stopped', async () => {
  const rateLimit = async () => {
    throw new Error('aborted');
  };
  const api = await start(answering(200), {}, { rateLimit });
  expect(await get(api, '/things?a=1')).toStrictEqual({
    kind: 'retry',
    reason: 'HTTP GET /things: stopped',
  });
  expect(server.requests).toHaveLength(0);
});

describe('a list', () => {
  const pages = (answers: readonly unknown[], maxPages = 3) => {
    const requested: (string | undefined)[] = [];
    const list = listPages({
      what: 'things',
      field: 'data',
      maxPages,
      notTheirs: { kind: 'blocked', reason: 'not theirs' },
      fetch: async (cursor) => {
        const body = (answers[requested.length] ?? {}) as Readonly<Record<string, unknown>>;
        requested.push(cursor);
        return { kind: 'ok', body, value: body, headers: {} };
      },
      next: ({ next }) => (typeof next === 'string' ? next : undefined),
    });
    return { list, requested };
  };

  test('is read page by page, what is no object left out', async () => {
    const { list, requested } = pages([{ data: [{ id: 1 }, 2], next: 'b' }, { data: [{ id: 3 }] }]);
    expect(await list).toStrictEqual({ kind: 'list', items: [{ id: 1 }, { id: 3 }] });
    expect(requested).toStrictEqual([undefined, 'b']);
  });

  test('that is too long or none at all is not mistaken for the complete list', async () => {
    const endless = { data: [], next: 'more' };
    expect(await pages([endless, endless], 2).list).toStrictEqual({
      kind: 'retry',
      reason: 'the list of things has more than 2 pages',
    });
    expect(await pages([{ items: [] }]).list).toStrictEqual({
      kind: 'blocked',
      reason: 'not theirs',
    });
  });
});

test('a step fails as its answer does, without what only the client needs', () => {
  const refusal = { status: 422, code: 'no', details: {}, reason: 'no' };
  expect(failedStep({ kind: 'refused', ...refusal })).toStrictEqual({
    kind: 'rejected',
    reason: 'no',
  });
  expect(failedStep({ kind: 'blocked', reason: 'key' })).toStrictEqual({
    kind: 'blocked',
    reason: 'key',
  });
  expect(
    failedStep({ kind: 'retry', reason: 'busy', afterMs: 5, cause: 'conflict' }),
  ).toStrictEqual({ kind: 'retry', reason: 'busy', afterMs: 5 });
});
