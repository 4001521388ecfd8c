import { hash } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import { Secret } from '../model/secret.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { Bucket } from './bucket.ts';
import { PooledClient } from './http-client.ts';
import { type HttpTestServer, type Responder, startTestServer } from './testing/test-server.ts';

const SECRET = 'canary-secret-key-71';
const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function put(answer: Responder): Promise<{ outcome: object; server: HttpTestServer }> {
  const server = await startTestServer(answer);
  const endpoint = `${server.url}/store`;
  const client = new PooledClient(
    { name: 'focus', baseUrl: endpoint },
    { clock: systemClock, userAgent: 'meterfeed/1.2.3', observe: () => {} },
  );
  closing.push(
    () => client.close(),
    () => server.close(),
  );
  const bucket = new Bucket({
    client,
    endpoint,
    region: 'eu-1',
    name: 'costs',
    accessKeyId: new Secret('id'),
    secretAccessKey: new Secret(SECRET),
    now: () => Date.parse('2026-11-29T10:00:00Z'),
  });
  const bytes = Buffer.from('hello');
  const { signal } = new AbortController();
  const key = 'a b/billing_period=2026-11/part.csv';
  const outcome = await bucket.put(key, bytes, hash('sha256', bytes, 'hex'), signal);
  return { outcome, server };
}

test('an object goes to its path below the endpoint, signed for the path that is sent', async () => {
  const { outcome, server } = await put((_, response) => void response.end());
  expect(outcome).toStrictEqual({ kind: 'written' });
  expect(server.requests).toMatchObject([
    {
      method: 'PUT',
      url: '/store/costs/a%20b/billing_period%3D2026-11/part.csv',
      body: 'hello',
      headers: { 'x-amz-date': '20261129T100000Z' },
    },
  ]);
});

test('a refusal is named by its code, and shows neither the secret nor the answer', async () => {
  const { outcome } = await put((_, response) => {
    response.statusCode = 403;
    response.end(`<Error><Code>AccessDenied</Code><Message>${SECRET}</Message></Error>`);
  });
  expect(outcome).toStrictEqual({
    kind: 'failed',
    reason: 'PUT a b/billing_period=2026-11/part.csv: bucket "costs": HTTP 403: AccessDenied',
  });
});

test('a redirect and a broken connection are failures, not written objects', async () => {
  const moved = await put((_, response) => void response.writeHead(301).end());
  expect(moved.outcome).toMatchObject({ kind: 'failed', reason: expect.stringContaining('301') });
  const cut = await put((_request, _response, socket) => void socket.destroy());
  expect(cut.outcome).toMatchObject({ kind: 'failed' });
});
