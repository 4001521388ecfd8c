import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { API_TOKEN, INGEST_TOKEN, startTestServer } from './testing/test-server.ts';

const token = API_TOKEN;

/**
 * Opens a connection, sends the beginning of a request, and gives what came back until it was
 * closed.
 */
async function untilClosed(port: number, start: string, feed?: (socket: Socket) => void) {
  const socket = connect(port, '127.0.0.1');
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(start);
  feed?.(socket);
  // Not events.once, which would take the reset of a refused upload for a failure.
  await new Promise((resolve) => socket.on('close', resolve));
  return Buffer.concat(pieces).toString();
}

const POST = [
  'POST /api/v1/events HTTP/1.1',
  'Host: x',
  `Authorization: Bearer ${INGEST_TOKEN}`,
  'Content-Type: application/json',
];

const IMPATIENT = {
  headersTimeoutMs: 200,
  requestTimeoutMs: 400,
  connectionsCheckingIntervalMs: 50,
};

describe('a client that sends slowly', () => {
  const limits = IMPATIENT;

  test('its headers is closed with 408', async () => {
    await using server = await startTestServer({ limits });
    const drip = (socket: Socket) => {
      const timer = setInterval(() => socket.write('X-a: b\r\n'), 20);
      socket.on('close', () => clearInterval(timer));
    };
    const answer = await untilClosed(server.port, 'GET / HTTP/1.1\r\nHost: x\r\n', drip);
    expect(answer).toContain('408 Request Timeout');
  });

  test('its body is closed with 408', async () => {
    await using server = await startTestServer({ limits });
    const drip = (socket: Socket) => {
      const timer = setInterval(() => socket.write(' '), 20);
      socket.on('close', () => clearInterval(timer));
    };
    const head = [...POST, 'Content-Length: 100000', '', ''].join('\r\n');
    expect(await untilClosed(server.port, head, drip)).toContain('408 Request Timeout');
  });

  test('nothing at all is closed', async () => {
    await using server = await startTestServer({ limits });
    expect(await untilClosed(server.port, '')).toContain('408');
  });
});

describe('a client that sends too much', () => {
  test('gets 413 by the announced size, before it has sent it', async () => {
    await using server = await startTestServer({ limits: IMPATIENT });
    const head = [...POST, 'Content-Length: 10485761', '', '{'].join('\r\n');
    const answer = await untilClosed(server.port, head);
    expect(answer).toContain('413 Payload Too Large');
    expect(answer).toContain('{"error":"too large: body: send at most 10485760 bytes at a time"}');
  });

  test('without announcing it is cut at 10 MiB and never held in memory', async () => {
    await using server = await startTestServer({ limits: IMPATIENT });
    const megabyte = Buffer.alloc(1024 * 1024, 0x20);
    const flood = (socket: Socket) => {
      let sent = 0;
      const more = () => {
        while (!socket.destroyed && sent < 400) {
          sent += 1;
          socket.write(`${megabyte.length.toString(16)}\r\n`);
          socket.write(megabyte);
          if (!socket.write('\r\n')) return;
        }
      };
      socket.on('drain', more);
      more();
    };
    const head = [...POST, 'Transfer-Encoding: chunked', '', ''].join('\r\n');
    // The first time the process grows by what it needs to send and drop so much at all.
    await untilClosed(server.port, head, flood);
    const before = process.memoryUsage().rss;
    const answer = await untilClosed(server.port, head, flood);
    expect(answer).toContain('413 Payload Too Large');
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
  });

  test('in headers gets 431', async () => {
    await using server = await startTestServer();
    const head = `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(9000)}\r\n\r\n`;
    expect(await untilClosed(server.port, head)).toContain('431');
  });

  test('together with others waits until there is room', async () => {
    await using server = await startTestServer();
    const head = [...POST, 'Content-Length: 10000000', 'Expect: 100-continue', '', '{'];
    const sockets = Array.from({ length: 6 }, () => connect(server.port, '127.0.0.1'));
    for (const socket of sockets) {
      socket.on('error', () => undefined);
      socket.write(head.join('\r\n'));
      expect(String(await once(socket, 'data'))).toContain('100 Continue');
    }
    const body = '{}'.padEnd(9_000_000);
    await expect
      .poll(
        async () => {
          const answer = await server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body });
          return [answer.status, answer.headers.get('retry-after')];
        },
        { timeout: 10_000 },
      )
      .toStrictEqual([503, '1']);
    for (const socket of sockets) socket.destroy();
    await expect
      .poll(
        async () => {
          const answer = await server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body });
          return answer.status;
        },
        { timeout: 10_000 },
      )
      .toBe(400);
  });
});

test('LiteLLM closes an idle connection first, after 120 s: it loses an event that it sends while the server closes', async () => {
  await using server = await startTestServer();
  const { headers } = await server.call('GET', '/healthz');
  const [, seconds] = /^timeout=(\d+)$/.exec(headers.get('keep-alive') ?? '') ?? [];
  expect(Number(seconds)).toBeGreaterThan(120);
});

test('a client that sends too many requests gets 429 and when to come back; others do not', async () => {
  await using server = await startTestServer({ limits: { requestsPerSecond: 5 } });
  const statuses = new Set<number>();
  let last;
  for (let index = 0; index < 50; index++) {
    last = await server.call('GET', '/api/v1/catalog', { token });
    statuses.add(last.status);
    if (last.status === 429) break;
  }
  expect([...statuses]).toStrictEqual([200, 429]);
  expect(last?.headers.get('retry-after')).toBe('1');
  const other = await server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body: {} });
  expect(other.status).toBe(400);
});

test('more exports at once than the ledger bears have to wait', async () => {
  let release: (() => void) | undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let scans = 0;
  const ledger = {
    ...createMemoryLedger(),
    async *scan() {
      scans += 1;
      await held;
      yield* [];
    },
  };
  await using server = await startTestServer({ ledger });
  const waiting = Array.from({ length: 4 }, () => server.call('GET', '/api/v1/usage', { token }));
  await expect.poll(() => scans).toBe(4);
  const refused = await server.call('GET', '/api/v1/events', { token });
  expect([refused.status, refused.headers.get('retry-after')]).toStrictEqual([503, '1']);
  release?.();
  expect((await Promise.all(waiting)).map((answer) => answer.status)).toStrictEqual(
    Array.from({ length: 4 }, () => 200),
  );
  expect((await server.call('GET', '/api/v1/events', { token })).status).toBe(200);
});

test('a client that sends a request and never reads is cut off, and its place is free again', async () => {
  let ended = false;
  const ledger = {
    ...createMemoryLedger(),
    async *scan() {
      try {
        for (let sequence = 1; ; sequence++) yield { sequence, event: testEvent() };
      } finally {
        ended = true;
      }
    },
  };
  await using server = await startTestServer({ ledger, limits: { idleTimeoutMs: 200 } });
  const socket = connect(server.port, '127.0.0.1').pause();
  socket.on('error', () => undefined);
  socket.write(`GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  await expect.poll(() => ended, { timeout: 10_000 }).toBe(true);
  socket.destroy();
});

describe('stopping', () => {
  test('lets a request under way finish, and takes no new one', async () => {
    let release: (() => void) | undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const inner = createMemoryLedger();
    let appending = false;
    const ledger = {
      ...inner,
      append: async (batch: Parameters<typeof inner.append>[0]) => {
        appending = true;
        await held;
        return inner.append(batch);
      },
    };
    const server = await startTestServer({ ledger });
    const body = {
      tenant: 'acme',
      metric: 'tokens_used',
      quantity: 1,
      window_start: '2026-11-21T09:00:00Z',
      window_end: '2026-11-21T09:01:00Z',
    };
    const pushing = server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body });
    await expect.poll(() => appending).toBe(true);
    const closed = server.close();
    release?.();
    expect((await pushing).status).toBe(200);
    await closed;
    await expect(server.call('GET', '/healthz')).rejects.toThrow('fetch failed');
  });

  test('is not held up by a client that never finishes', async () => {
    const server = await startTestServer({ limits: { stopGraceMs: 100 } });
    const head = [...POST, 'Content-Length: 1000', '', '{'].join('\r\n');
    const hanging = untilClosed(server.port, head);
    await expect.poll(async () => (await server.call('GET', '/healthz')).status).toBe(200);
    await server.close();
    expect(await hanging).toBe('');
  });

  test('is what an aborted signal does; an address in use is a clear error', async () => {
    await using server = await startTestServer();
    const listen = { LISTEN_ADDR: `127.0.0.1:${server.port}` };
    await expect(startTestServer({ environment: listen })).rejects.toThrow(
      `cannot listen: LISTEN_ADDR: "127.0.0.1:${server.port}": listen EADDRINUSE`,
    );
  });
});
