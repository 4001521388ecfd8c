import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { DEFAULT_LIMITS } from './limits.ts';
import {
  API_TOKEN,
  INGEST_TOKEN,
  quietViews,
  startTestServer,
  testSettings,
  type TestServerOptions,
} from './testing/test-server.ts';

const quiet = quietViews(() => testSettings());

/** Every webhook is open, and takes what it is sent. */
const WITH_WEBHOOKS: TestServerOptions = {
  views: {
    enforcement: {
      ...quiet.enforcement,
      isEnabled: () => true,
      receive: async () => ({ kind: 'ignored', why: 'irrelevant', reason: 'none of ours' }),
    },
  },
};

const MIB = 1024 * 1024;
const WEBHOOK = [
  'POST /webhooks/stripe HTTP/1.1',
  'Host: x',
  'Content-Type: application/json',
  `Content-Length: ${MIB}`,
  '',
  '',
].join('\r\n');

/** Connections that are open when this returns, each of which has sent a text. */
async function openSockets(
  port: number,
  count: number,
  text: string | Buffer,
  answered: (answer: string) => void = () => undefined,
) {
  const sockets: Socket[] = [];
  for (let index = 0; index < count; index++) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.on('data', (answer: Buffer) => answered(answer.toString()));
    sockets.push(socket);
  }
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  if (text.length > 0) {
    await Promise.all(sockets.map((socket) => new Promise((sent) => socket.write(text, sent))));
  }
  return {
    sockets,
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** The status that another client of this machine gets, one that none of the sockets is from. */
function queryFromElsewhere(port: number, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const requested = request(
      { host: '127.0.0.1', port, path, localAddress: '127.0.0.2', agent: false, timeout: 4000 },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      },
    );
    requested.once('timeout', () => requested.destroy(new Error('no answer')));
    requested.once('error', reject);
    requested.end();
  });
}

test('64 webhooks that announce 1 MiB and send one byte keep nobody from pushing events', async () => {
  await using server = await startTestServer(WITH_WEBHOOKS);
  using _open = await openSockets(server.port, 64, `${WEBHOOK}{`);
  for (let round = 0; round < 5; round++) {
    const body = '{}'.padEnd(10 * MIB);
    const push = await server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body });
    expect(push.status).toBe(400);
    const headers = { 'content-type': 'application/json' };
    const webhook = await server.call('POST', '/webhooks/stripe', { headers, body: '{}' });
    expect(webhook.status).toBe(200);
  }
});

test('webhooks that send all they announce but its last byte fill 16 MiB of their own, and are refused', async () => {
  await using server = await startTestServer(WITH_WEBHOOKS);
  const most = Buffer.concat([Buffer.from(WEBHOOK), Buffer.alloc(MIB - 1, 0x20)]);
  let busy = 0;
  using _open = await openSockets(server.port, 64, most, (answer) => {
    if (answer.includes('503 Service Unavailable')) busy += 1;
  });
  await expect.poll(() => busy, { timeout: 20_000 }).toBeGreaterThanOrEqual(48);
  const body = '{}'.padEnd(10 * MIB);
  const push = await server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body });
  expect(push.status).toBe(400);
});

test('1,024 idle sockets of one address take no place of others, and the probes have a separate port', async () => {
  await using server = await startTestServer({ environment: { PROBE_ADDR: '127.0.0.1:0' } });
  using _idle = await openSockets(server.port, DEFAULT_LIMITS.maxConnections, '');
  expect(await queryFromElsewhere(server.port, '/healthz')).toBe(200);
  for (const path of ['/healthz', '/readyz', '/readyz?verbose']) {
    expect(await queryFromElsewhere(server.probePort, path)).toBe(200);
  }
  const refused = await server.metrics.getSingleMetricAsString(
    'meterfeed_http_refused_connections_total',
  );
  expect(refused).toContain(
    `{reason="address"} ${DEFAULT_LIMITS.maxConnections - DEFAULT_LIMITS.maxConnectionsPerAddress}`,
  );
});

test('the probe port answers for health and for nothing else, and idle sockets do not fill it either', async () => {
  await using server = await startTestServer({ environment: { PROBE_ADDR: '127.0.0.1:0' } });
  using _idle = await openSockets(server.probePort, 200, '');
  for (const path of ['/', '/metrics', '/api/v1/status', '/api/v1/events']) {
    expect([path, await queryFromElsewhere(server.probePort, path)]).toStrictEqual([path, 404]);
  }
  expect(await queryFromElsewhere(server.probePort, '/healthz')).toBe(200);
});

test('a place of an address is free again when its connection ends', async () => {
  await using server = await startTestServer({ limits: { maxConnectionsPerAddress: 2 } });
  for (let round = 0; round < 5; round++) {
    using _two = await openSockets(server.port, 2, '');
  }
  await expect.poll(async () => (await server.call('GET', '/healthz')).status).toBe(200);
});

/** One request of a hostile client, which keeps its connections; gives the status. */
function attack(port: number, agent: Agent, index: number): Promise<number> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer guess-${index}` };
  const attacks = [
    { method: 'GET', path: '/api/v1/status', headers },
    { method: 'POST', path: '/api/v1/events', headers, body: '{"metric":' },
    { method: 'POST', path: '/webhooks/stripe', headers, body: '['.repeat(2000) },
    { method: 'POST', path: '/webhooks/nobody', headers, body: '{}' },
    { method: 'GET', path: `/api/v1/tenants/%ff${index}`, headers },
    { method: 'DELETE', path: '/api/v1/ledger/verify', headers },
    { method: 'GET', path: `/readyz?verbose=${index}`, headers: {} },
  ];
  const { body = '', ...wish } = attacks[index % attacks.length] ?? { path: '/' };
  return new Promise((resolve, reject) => {
    const requested = request({ host: '127.0.0.1', port, agent, ...wish }, (answer) => {
      answer.resume();
      answer.once('end', () => resolve(answer.statusCode ?? 0));
    });
    requested.once('error', reject);
    requested.end(body);
  });
}

test('10,000 hostile requests are refused, and probes, pushes and reads answered among them', async () => {
  await using server = await startTestServer({
    ...WITH_WEBHOOKS,
    environment: { PROBE_ADDR: '127.0.0.1:0' },
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 40 });
  const seen = new Map<number, number>();
  const honest: number[] = [];
  const event = {
    tenant: 'acme',
    metric: 'tokens_used',
    quantity: 1,
    window_start: '2026-11-21T09:00:00Z',
    window_end: '2026-11-21T09:01:00Z',
  };
  for (let round = 0; round < 100; round++) {
    const hostile = Array.from({ length: 100 }, (_, index) =>
      attack(server.port, agent, round * 100 + index),
    );
    const push = { token: INGEST_TOKEN, body: { ...event, resource_id: `r${round}` } };
    const requested = [
      queryFromElsewhere(server.probePort, '/healthz'),
      queryFromElsewhere(server.probePort, '/readyz'),
      server.call('POST', '/api/v1/events', push).then(({ status }) => status),
      server.call('GET', '/api/v1/status', { token: API_TOKEN }).then(({ status }) => status),
    ];
    for (const status of await Promise.all(hostile)) seen.set(status, (seen.get(status) ?? 0) + 1);
    honest.push(...(await Promise.all(requested)));
  }
  agent.destroy();
  expect(new Set(honest)).toStrictEqual(new Set([200]));
  expect([...seen.values()].reduce((sum, count) => sum + count, 0)).toBe(10_000);
  // 200 is for webhooks, whose signature the stand-in does not check; 429 for tokens guessed too
  // often.
  for (const status of seen.keys()) expect([200, 400, 401, 404, 405, 429]).toContain(status);
  expect(seen.get(429)).toBeGreaterThan(1000);
  const refused = await server.metrics.getSingleMetricAsString(
    'meterfeed_http_refused_tokens_total',
  );
  expect(refused).toMatch(/\{reason="unknown"\} 120\n/);
  expect(refused).toMatch(/\{reason="too-many"\} \d{4}/);
  expect(server.log.length).toBeLessThan(20);
}, 120_000);
