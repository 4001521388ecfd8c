import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { MOST_PIPELINED_REQUESTS } from './pipelining.ts';
import { INGEST_TOKEN, startTestServer } from './testing/test-server.ts';

const LINE_ENDS = ['\r\n', '\n'];

/** Sends a text, and gives how many answers came until the connection was closed. */
function answersTo(port: number, text: string): Promise<number> {
  return new Promise((resolve) => {
    let reported = '';
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.on('data', (answer: Buffer) => {
      reported += answer.toString('latin1');
    });
    socket.once('close', () => resolve(reported.split('HTTP/1.1 200 OK').length - 1));
    socket.write(text);
  });
}

const requests = (count: number, end: string): string =>
  `GET /healthz HTTP/1.1${end}Host: x${end}${end}`.repeat(count);

test.each(LINE_ENDS)('2,000 requests in one packet cost nobody his turn: %j', async (end) => {
  await using server = await startTestServer({ environment: { PROBE_ADDR: '127.0.0.1:0' } });
  for (const port of [server.port, server.probePort]) {
    expect(await answersTo(port, requests(2000, end))).toBe(0);
  }
  const refused = await server.metrics.getSingleMetricAsString(
    'meterfeed_http_refused_connections_total',
  );
  expect(refused).toContain('{reason="pipelining"} 2');
});

test('a client that is a few requests ahead gets its answers', async () => {
  await using server = await startTestServer();
  const last = 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
  const text = requests(MOST_PIPELINED_REQUESTS - 1, '\r\n') + last;
  expect(await answersTo(server.port, text)).toBe(MOST_PIPELINED_REQUESTS);
});

test('a pushed event that quotes requests is an event', async () => {
  await using server = await startTestServer();
  const quoted = 'GET / HTTP/1.1 and '.repeat(10);
  const events = Array.from({ length: 50 }, (_, index) => ({
    tenant: 'acme',
    metric: 'tokens_used',
    quantity: 1,
    window_start: '2026-11-21T09:00:00Z',
    window_end: '2026-11-21T09:01:00Z',
    resource_id: `r${index}`,
    properties: { quoted },
  }));
  const push = { token: INGEST_TOKEN, body: { events } };
  expect(await server.call('POST', '/api/v1/events', push)).toMatchObject({ status: 200 });
});
