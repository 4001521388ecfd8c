import { createServer } from 'node:net';
import { Registry } from 'prom-client';
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../telemetry/system-clock.ts';
import type { HttpClient, HttpClientOptions, HttpFailure } from './http-client.ts';
import { createOutbound, type OutboundOptions } from './outbound.ts';
import { type Responder, startTestServer, type HttpTestServer } from './testing/test-server.ts';

const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function serve(answer: Responder): Promise<HttpTestServer> {
  const server = await startTestServer(answer);
  closers.push(() => server.close());
  return server;
}

const registry = new Registry();

function clientOf(
  options: Omit<HttpClientOptions, 'name'>,
  more: Partial<OutboundOptions> = {},
): HttpClient {
  const outbound = createOutbound({
    registry: new Registry(),
    clock: systemClock,
    userAgent: 'meterfeed/test',
    ...more,
  });
  const client = outbound.client({ name: 'lago', ...options });
  closers.push(() => client.close());
  return client;
}

async function failureOf(
  options: Omit<HttpClientOptions, 'name'>,
  path = '/api/v1/events/batch',
): Promise<HttpFailure> {
  const outcome = await clientOf(options).request({ method: 'POST', path, body: '{}' });
  if (outcome.kind !== 'failed') throw new Error(`answered ${outcome.status}`);
  return outcome;
}

test('a request arrives whole, and its answer comes back whole', async () => {
  const server = await serve((_, response) => {
    response.writeHead(201, { 'X-RateLimit-Reset': '3' }).end('{"ok":true}');
  });
  const client = clientOf({ baseUrl: `${server.url}/base/`, headers: { Authorization: 'one' } });
  const outcome = await client.request({
    method: 'POST',
    path: '/x?y=1',
    headers: { authorization: 'two', 'Content-Type': 'text/plain' },
    body: 'grüß',
  });
  expect(outcome).toMatchObject({
    kind: 'response',
    status: 201,
    body: '{"ok":true}',
    complete: true,
    headers: { 'x-ratelimit-reset': '3' },
  });
  expect(server.requests).toMatchObject([
    {
      method: 'POST',
      url: '/base/x?y=1',
      body: 'grüß',
      headers: {
        authorization: 'two',
        'content-type': 'text/plain',
        'user-agent': 'meterfeed/test',
      },
    },
  ]);
});

test('a URL that ends in a slash or a query is used as it is', async () => {
  const server = await serve((_, response) => void response.end());
  await clientOf({ baseUrl: `${server.url}/hook/?key=1` }).request({ method: 'POST', path: '' });
  expect(server.requests[0]?.url).toBe('/hook/?key=1');
});

test('a server that is not there differs from one that may have acted', async () => {
  const server = await serve(() => undefined);
  await server.close();
  expect(await failureOf({ baseUrl: server.url })).toStrictEqual({
    kind: 'failed',
    reason: 'HTTP POST /api/v1/events/batch: connection refused',
    sent: false,
    permanent: false,
  });
});

test('a connection reset after the request leaves the outcome unknown', async () => {
  const server = await serve((_, __, socket) => void socket.resetAndDestroy());
  const failure = await failureOf({ baseUrl: server.url });
  expect(failure).toMatchObject({ sent: 'unknown', permanent: false });
  expect(failure.reason).toMatch(/^HTTP POST \/api\/v1\/events\/batch: connection (reset|closed)/);
});

test('an answer that is not HTTP is a failure, not a crash', async () => {
  const server = createServer((socket) => socket.end('nonsense\r\n\r\n'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(async () => void server.close());
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  expect(await failureOf({ baseUrl: `http://127.0.0.1:${port}` })).toMatchObject({
    sent: 'unknown',
  });
});

test('a server that never answers does not hold the caller', async () => {
  const server = await serve(() => undefined);
  const failure = await failureOf({ baseUrl: server.url, timeouts: { total: 50 } });
  expect(failure).toMatchObject({
    reason: 'HTTP POST /api/v1/events/batch: timed out',
    sent: 'unknown',
  });
});

test('a body that never ends counts by its status, and does not hold the caller', async () => {
  const server = await serve((_, response) => void response.writeHead(200).write('begin'));
  const client = clientOf({ baseUrl: server.url, timeouts: { total: 1_000 } });
  expect(await client.request({ method: 'GET', path: '/' })).toMatchObject({
    kind: 'response',
    status: 200,
    body: 'begin',
    complete: false,
  });
});

test('an error that repeats the credential is passed on without it, also where JSON escapes it', async () => {
  const credential = 'canary"one\\two-three';
  const server = await serve(({ headers }, response) => {
    const stated = { message: headers.authorization, key: [credential] };
    response.writeHead(422).end(JSON.stringify(stated) + credential);
  });
  const headers = { Authorization: `Bearer ${credential}` };
  const outcome = await clientOf({ baseUrl: server.url, headers }).request({
    method: 'GET',
    path: '/',
  });
  expect(outcome).toMatchObject({ body: '{"message":"Bearer ***","key":["***"]}***' });
});

test('a short word as a key does not take words out of answers', async () => {
  const body = '{"code":"customer_not_found"}';
  const server = await serve((_, response) => void response.writeHead(404).end(body));
  const headers = { Authorization: 'Bearer customer' };
  const client = clientOf({ baseUrl: server.url, headers });
  expect(await client.request({ method: 'GET', path: '/' })).toMatchObject({ body });
});

test('an endless answer does not fill the memory', async () => {
  const server = await serve((_, response) => void response.end('x'.repeat(100_000)));
  const client = clientOf({ baseUrl: server.url, responseBytes: 1000 });
  const outcome = await client.request({ method: 'GET', path: '/' });
  expect(outcome).toMatchObject({ kind: 'response', complete: false, body: 'x'.repeat(1000) });
});

test('the caller can stop a request', async () => {
  const stop = new AbortController();
  const server = await serve(() => stop.abort());
  const client = clientOf({ baseUrl: server.url });
  expect(await client.request({ method: 'GET', path: '/x', signal: stop.signal })).toMatchObject({
    kind: 'failed',
    reason: 'HTTP GET /x: stopped',
  });
});

test('a redirect is an answer, and is never followed', async () => {
  const target = await serve((_, response) => void response.end());
  const server = await serve((_, response) => {
    response.writeHead(302, { location: `${target.url}/stolen` }).end();
  });
  const outcome = await clientOf({ baseUrl: server.url }).request({ method: 'POST', path: '/' });
  expect(outcome).toMatchObject({ kind: 'response', status: 302 });
  expect(target.requests).toHaveLength(0);
});

test.each(['http://169.254.169.254', 'http://2852039166', 'http://[::ffff:169.254.169.254]'])(
  'the metadata service is not dialled: %s',
  async (baseUrl) => {
    const failure = await failureOf({ baseUrl, timeouts: { total: 2000 } });
    expect(failure).toMatchObject({ sent: false, permanent: true });
    expect(failure.reason).toContain('address not allowed: link-local or cloud metadata');
  },
);

test('a name that turns to the metadata service after a good answer is not dialled', async () => {
  const server = await serve((_, response) => {
    response.writeHead(200, { connection: 'close' }).end();
  });
  const answers = ['127.0.0.1', '169.254.169.254'];
  const client = clientOf(
    { baseUrl: `http://rebind.test:${server.port}` },
    {
      lookup: (_name, _options, callback) => {
        callback(null, [{ address: answers.shift() ?? '127.0.0.1', family: 4 }]);
      },
    },
  );
  expect(await client.request({ method: 'GET', path: '/' })).toMatchObject({ status: 200 });
  expect(await client.request({ method: 'GET', path: '/' })).toMatchObject({
    kind: 'failed',
    permanent: true,
  });
});

test('credentials of a URL go into a header, and into no error', async () => {
  const server = await serve((_, response) => void response.end());
  const baseUrl = server.url.replace('http://', 'http://user:p%40ss@');
  await clientOf({ baseUrl }).request({ method: 'GET', path: '/' });
  expect(server.requests[0]?.headers.authorization).toBe(
    `Basic ${Buffer.from('user:p@ss').toString('base64')}`,
  );
  await server.close();
  const failure = await failureOf({ baseUrl }, '/x?token=canary');
  expect(failure.reason).toBe('HTTP POST /x: connection refused');
});

test('a header that HTTP does not allow is named without its value', async () => {
  const server = await serve((_, response) => void response.end());
  const failure = await failureOf({ baseUrl: server.url, headers: { 'x-key': 'canary\n' } });
  expect(failure).toMatchObject({ sent: false, permanent: true });
  expect(JSON.stringify(failure)).not.toContain('canary');
});

test('each attempt is counted by destination and status', async () => {
  const server = await serve((_, response) => void response.writeHead(429).end());
  const client = clientOf({ baseUrl: server.url }, { registry });
  await client.request({ method: 'GET', path: '/' });
  await server.close();
  await client.request({ method: 'GET', path: '/' });
  const text = await registry.metrics();
  expect(text).toContain(
    'meterfeed_outbound_requests_total{destination="lago",method="GET",code="429"} 1',
  );
  expect(text).toContain(
    'meterfeed_outbound_requests_total{destination="lago",method="GET",code="failed"} 1',
  );
});

test.each(['ftp://x', 'not a url', ''])('a base URL must be http or https: %j', (baseUrl) => {
  expect(() => clientOf({ baseUrl })).toThrow(TypeError);
});

test('a host that nobody finds is not named, so a typing error in it cannot be seen', async () => {
  const client = clientOf(
    { baseUrl: 'http://billing.exmaple.com:8443/hook?key=canary' },
    {
      lookup: (hostname, _options, callback) => {
        const error = new Error(`getaddrinfo ENOTFOUND ${hostname}`);
        callback(Object.assign(error, { code: 'ENOTFOUND', hostname }), []);
      },
    },
  );
  const outcome = await client.request({ method: 'POST', path: '', body: '{}' });
  expect(outcome).toMatchObject({
    kind: 'failed',
    reason: 'HTTP POST /hook: host not found: "billing.exmaple.com"',
    sent: false,
  });
});
