import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import {
  API_TOKEN,
  INGEST_TOKEN,
  startTestServer,
  type TestServer,
} from './testing/test-server.ts';

const EVENT = JSON.stringify({
  tenant: 'acme',
  metric: 'tokens_used',
  quantity: 1,
  window_start: '2026-11-21T09:00:00Z',
  window_end: '2026-11-21T09:01:00Z',
});

/**
 * What a body hides: a request that would be carried out, with the right token, if it were ever
 * made.
 */
const HIDDEN = request('POST /api/v1/events', EVENT, [
  `Authorization: Bearer ${INGEST_TOKEN}`,
  'Content-Type: application/json',
  `Content-Length: ${EVENT.length}`,
]);
const LENGTH = `Content-Length: ${HIDDEN.length}`;
const CHUNKED = 'Transfer-Encoding: chunked';
const TOKEN = `Authorization: Bearer ${API_TOKEN}`;
/**
 * The last request of a connection, so that its end shows that every request before it was read to
 * its end.
 */
const LAST = request('GET /healthz', '', ['Connection: close']);

function request(start: string, body: string, headers: readonly string[]): string {
  return [`${start} HTTP/1.1`, 'Host: x', ...headers, '', body].join('\r\n');
}

function chunked(body: string): string {
  return `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
}

/** The statuses of all answers to a text, until the server ends the connection. */
function statusesOf(port: number, text: string): Promise<readonly number[]> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.on('data', (bytes: Buffer) => {
      answer += bytes.toString('latin1');
    });
    socket.once('close', () => {
      resolve([...answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status)));
    });
    socket.write(text);
  });
}

async function expectNothingPushed(server: TestServer): Promise<void> {
  const { text } = await server.call('GET', '/api/v1/events', { token: API_TOKEN });
  expect(text).toBe('');
}

test('the hidden request is one that would be carried out', async () => {
  await using server = await startTestServer();
  expect(await statusesOf(server.port, HIDDEN + LAST)).toStrictEqual([200, 200]);
  const { text } = await server.call('GET', '/api/v1/events', { token: API_TOKEN });
  expect(text).toContain('tokens_used');
});

test.each([
  ['a chunked GET', request('GET /api/v1/status', chunked(HIDDEN), [TOKEN, CHUNKED]), 200],
  ['a GET with a length', request('GET /api/v1/status', HIDDEN, [TOKEN, LENGTH]), 200],
  [
    'a length that the Connection header names',
    request('GET /api/v1/status', HIDDEN, [
      TOKEN,
      'Connection: content-length, keep-alive',
      LENGTH,
    ]),
    200,
  ],
  [
    'an encoding that the Connection header names',
    request('GET /api/v1/status', chunked(HIDDEN), [
      TOKEN,
      'Connection: transfer-encoding',
      CHUNKED,
    ]),
    200,
  ],
  ['a chunked DELETE', request('DELETE /api/v1/status', chunked(HIDDEN), [TOKEN, CHUNKED]), 405],
  ['a page that is not there', request('POST /nowhere', HIDDEN, [LENGTH]), 404],
  ['a request without a token', request('POST /api/v1/events', HIDDEN, [LENGTH]), 401],
  [
    'a body that is of no known type',
    request('POST /api/v1/events', HIDDEN, [`Authorization: Bearer ${INGEST_TOKEN}`, LENGTH]),
    415,
  ],
  [
    'a length that is there twice, the same',
    request('GET /api/v1/status', HIDDEN, [TOKEN, LENGTH, LENGTH]),
    400,
  ],
])('no request is made of a body: %s', async (_name, text, status) => {
  await using server = await startTestServer();
  const statuses = await statusesOf(server.port, text + LAST);
  expect(statuses[0]).toBe(status);
  // The answer to the last request, unless the connection ended before it.
  expect(statuses.slice(1)).toStrictEqual(status === 400 ? [] : [200]);
  await expectNothingPushed(server);
});

test.each([
  ['a length and an encoding', [LENGTH, CHUNKED], chunked(HIDDEN)],
  ['two lengths', ['Content-Length: 0', LENGTH], HIDDEN],
  ['a list of lengths', [`Content-Length: 0, ${HIDDEN.length}`], HIDDEN],
  ['a length with a sign', [`Content-Length: +${HIDDEN.length}`], HIDDEN],
  ['a length in hexadecimal', ['Content-Length: 0x0'], HIDDEN],
  ['an encoding that is not the last', ['Transfer-Encoding: chunked, identity'], chunked(HIDDEN)],
  ['an encoding that nobody knows', ['Transfer-Encoding: xchunked'], chunked(HIDDEN)],
  ['a space before the colon', ['Transfer-Encoding : chunked'], chunked(HIDDEN)],
  ['a header that goes on in the next line', ['Transfer-Encoding:', ' chunked'], chunked(HIDDEN)],
  ['a chunk longer than it says', [CHUNKED], `1\r\n${HIDDEN}\r\n0\r\n\r\n`],
  ['a chunk whose line ends in a newline alone', [CHUNKED], `0\n\n${HIDDEN}`],
  ['a carriage return within a header', [`X: y\rContent-Length: ${HIDDEN.length}`], HIDDEN],
])('what can be read in two ways ends the connection: %s', async (_name, headers, body) => {
  await using server = await startTestServer({ environment: { PROBE_ADDR: '127.0.0.1:0' } });
  for (const port of [server.port, server.probePort]) {
    const text = request('POST /healthz', body, headers) + LAST;
    const statuses = await statusesOf(port, text);
    expect(statuses).not.toContain(200);
    expect(statuses.length).toBeLessThanOrEqual(2);
  }
  await expectNothingPushed(server);
});

test('a tunnel, which nobody opens, ends the connection', async () => {
  await using server = await startTestServer();
  const tunnel = request('CONNECT x:80', HIDDEN, [LENGTH]);
  expect(await statusesOf(server.port, tunnel)).toStrictEqual([]);
  await expectNothingPushed(server);
});

test('after an upgrade, which nobody makes, nothing more is read as a request', async () => {
  await using server = await startTestServer();
  const socket = connect(server.port, '127.0.0.1');
  socket.write(request('GET /healthz', HIDDEN, ['Connection: Upgrade', 'Upgrade: h2c', LENGTH]));
  socket.write(HIDDEN);
  const [answer] = (await once(socket, 'data')) as [Buffer];
  expect(answer.toString('latin1')).toMatch(/^HTTP\/1\.1 200 /);
  await expectNothingPushed(server);
  socket.destroy();
});
