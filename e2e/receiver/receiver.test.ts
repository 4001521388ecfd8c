import { createHmac } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Stripe } from 'stripe';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Receiver, startReceiver } from './receiver.ts';
import { RefusalLog } from './refusal-log.ts';

const SECRET = 'local-secret';
let directory = '';
let file = '';
let receiver: Receiver;
const lines: string[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'receiver-'));
  file = join(directory, 'received.ndjson');
  lines.length = 0;
  receiver = await startReceiver({
    file,
    secret: SECRET,
    port: 0,
    log: (line) => lines.push(line),
  });
});
afterEach(async () => {
  await receiver.stop();
  await rm(directory, { recursive: true, force: true });
});

function usage(id: string, quantity: string): string {
  return `{"specversion":"1.0","id":"${id}","source":"local","type":"io.meterfeed.usage.v1.tenant_lb_hours","data":{"id":"${id}","quantity":${quantity}}}`;
}

function sign(body: string, at = Date.now()): string {
  const time = Math.floor(at / 1000);
  const hex = createHmac('sha256', SECRET).update(`${time}.${body}`).digest('hex');
  return `t=${time},v1=${hex}`;
}

async function post(body: string, signature = sign(body)): Promise<number> {
  const headers = {
    'content-type': 'application/cloudevents-batch+json',
    'x-svc-signature': signature,
  };
  const response = await fetch(receiver.url, { method: 'POST', body, headers });
  return response.status;
}

test('every event of a batch becomes one line, and its quantity keeps its digits', async () => {
  expect(await post(`[${usage('a', '0.000000001')},${usage('b', '12345678901.123456789')}]`)).toBe(
    200,
  );
  expect(await readFile(file, 'utf8')).toBe(
    '{"id":"a","quantity":0.000000001}\n{"id":"b","quantity":12345678901.123456789}\n',
  );
});

test("takes what the card payment provider's own library signs", async () => {
  const body = `[${usage('a', '1')}]`;
  const signature = await Stripe.webhooks.generateTestHeaderStringAsync({
    payload: body,
    secret: SECRET,
  });
  expect(await post(body, signature)).toBe(200);
});

test.each([
  ['a wrong secret', (body: string) => sign(`${body} `)],
  ['an old time', (body: string) => sign(body, Date.now() - 3_600_000)],
  ['no signature', () => ''],
])('refuses %s, and keeps nothing of the batch', async (_name, signature) => {
  const body = `[${usage('a', '1')}]`;
  expect(await post(body, signature(body))).toBe(401);
  expect(receiver.stats()).toMatchObject({ accepted: 0, refused: 1 });
});

test('refuses a batch with a broken event as a whole', async () => {
  expect(await post(`[${usage('a', '1')},{"specversion":"1.0"}]`)).toBe(400);
  expect(receiver.stats().accepted).toBe(0);
});

test('a batch that comes again adds no line, also after a restart and a torn last line', async () => {
  await post(`[${usage('a', '1')}]`);
  await receiver.stop();
  appendFileSync(file, '{"id":"to');
  receiver = await startReceiver({ file, secret: SECRET, port: 0 });
  await post(`[${usage('a', '1')},${usage('a', '2')},${usage('b', '1')}]`);
  expect(receiver.stats()).toMatchObject({ accepted: 1, duplicates: 1, conflicts: 1 });
  expect(await readFile(file, 'utf8')).toBe('{"id":"a","quantity":1}\n{"id":"b","quantity":1}\n');
});

test('a receiver in trouble refuses what it is set to refuse, and nothing else', async () => {
  await receiver.stop();
  const refusal = { status: 422, containing: '"id":"b"' };
  receiver = await startReceiver({ file, secret: SECRET, port: 0, refusal });
  expect(await post(`[${usage('a', '1')}]`)).toBe(200);
  expect(await post(`[${usage('a', '1')},${usage('b', '1')}]`)).toBe(422);
  expect(await readFile(file, 'utf8')).toBe('{"id":"a","quantity":1}\n');
});

test('a watcher of the receiver does not see what it refused, and why', async () => {
  const body = `[${usage('a', '1')}]`;
  await post(body, sign(`${body} `));
  await post(body, sign(`${body} `));
  await post('[{"specversion":"1.0"}]');
  expect(lines).toStrictEqual([
    expect.stringMatching(/^refused with 401: signature: no "v1" matches .* --secret/),
    expect.stringMatching(/^refused with 400: /),
  ]);
});

test('a sender that goes on with the wrong key fills the terminal', () => {
  const log = new RefusalLog((line) => lines.push(line));
  for (let second = 0; second < 25; second += 1) log.report(401, 'signature', second * 1000);
  expect(lines).toStrictEqual([
    'refused with 401: signature',
    'refused with 401: signature (and 9 times since the last line)',
    'refused with 401: signature (and 9 times since the last line)',
  ]);
});
