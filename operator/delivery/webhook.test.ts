import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CloudEvent, HTTP } from 'cloudevents';
import { Stripe } from 'stripe';
import { afterEach, expect, test, vi } from 'vitest';
import { Secret } from '../model/secret.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { TEST_WINDOW_START, testWindow } from '../ledger/testing/events.ts';
import { openTestLedger } from '../ledger/testing/level-ledger.ts';
import {
  type Responder,
  type ReceivedRequest,
  startTestServer,
  type HttpTestServer,
} from '../outbound/testing/test-server.ts';
import { createFastClock } from './testing/fast-clock.ts';
import { type LiveDelivery, startLiveDelivery } from './testing/live-delivery.ts';

const CANARY = 'canary-secret';
const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

interface World extends LiveDelivery {
  readonly server: HttpTestServer;
  readonly ledger: Ledger;
}

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'delivery-'));
  closers.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function serve(answer: Responder): Promise<HttpTestServer> {
  const server = await startTestServer(answer);
  closers.push(() => server.close());
  return server;
}

/** The engine on a real LevelDB ledger, delivering to a real server. */
async function start(server: HttpTestServer, directory = temporaryDirectory()): Promise<World> {
  const ledger = await openTestLedger(directory);
  const clock = createFastClock(Date.now());
  const settings: DestinationSettings = {
    name: 'webhook',
    type: 'webhook',
    suspend: false,
    startFrom: 'earliest',
    options: {
      url: `${server.url.replace('//', `//user:${CANARY}@`)}/hook?key=${CANARY}`,
      secrets: [new Secret(`whsec_${CANARY}`)],
      headers: new Map([['X-Key', new Secret(CANARY)]]),
      source: 'control-plane',
    },
  };
  const live = await startLiveDelivery({ ledger, clock, destinations: [settings] });
  const stop = async (): Promise<void> => {
    await live.stop();
    await ledger.close();
  };
  closers.push(stop);
  return { ...live, server, ledger, stop };
}

function usageOf(request: ReceivedRequest): CloudEvent<unknown>[] {
  const parsed = HTTP.toEvent<unknown>({ headers: { ...request.headers }, body: request.body });
  const events = [parsed].flat() as CloudEvent<unknown>[];
  return events.filter(({ type }) => type.startsWith('io.meterfeed.usage.v1.'));
}

async function drained({ delivery, ledger }: World): Promise<void> {
  await vi.waitFor(
    () => {
      const status = delivery.status('webhook');
      expect(status?.cursor).toBe(ledger.head());
      expect(status?.parked).toBe(0);
    },
    { timeout: 20_000, interval: 5 },
  );
}

test('through resets, 503 and restarts every event arrives, signed, in batches that the SDKs read', async () => {
  const accepted = new Set<string>();
  let calls = 0;
  const server = await serve((request, response, socket) => {
    calls += 1;
    const available = calls % 4 !== 0;
    if (available) for (const { id } of usageOf(request)) accepted.add(id);
    if (available && calls % 5 === 0) socket.resetAndDestroy();
    else response.writeHead(available ? 202 : 503, { 'retry-after': '1' }).end();
  });
  const directory = temporaryDirectory();
  const expected: string[] = [];
  for (let life = 0; life < 3; life += 1) {
    const world = await start(server, directory);
    for (let window = 0; window < 20; window += 1) {
      const at = TEST_WINDOW_START + (life * 20 + window) * 60_000;
      const events = testWindow(at, 25);
      expected.push(...events.map(({ id }) => id));
      await world.ledger.append({ events });
    }
    if (life === 2) await drained(world);
    await world.stop();
  }
  expect([...accepted].toSorted()).toStrictEqual(expected.toSorted());
  const stripe = new Stripe('sk_test_unused');
  for (const { body, headers } of server.requests) {
    const signature = String(headers['x-svc-signature']);
    // The clock of the test runs ahead of the machine's, so age is not looked at here.
    stripe.webhooks.signature?.verifyHeader(body, signature, `whsec_${CANARY}`, 0);
  }
  expect(server.requests.length).toBeGreaterThan(10);
});

test('a receiver with a small body limit gets everything in smaller batches', async () => {
  const limit = 40_000;
  const taken = new Set<string>();
  const server = await serve((request, response) => {
    const fits = request.body.length <= limit;
    if (fits) for (const { id } of usageOf(request)) taken.add(id);
    response.writeHead(fits ? 204 : 413).end();
  });
  const world = await start(server);
  const events = Array.from({ length: 10 }, (_, window) =>
    testWindow(TEST_WINDOW_START + window * 60_000, 100),
  ).flat();
  await world.ledger.append({ events });
  await drained(world);
  expect(taken.size).toBe(1000);
  expect(world.delivery.status('webhook')).toMatchObject({ deadLetters: 0 });
  // Only the first batch of 500 is halved down, four times; those after it are small enough.
  const refused = server.requests.filter(({ body }) => body.length > limit);
  expect(refused.length).toBeLessThanOrEqual(15);
});

test.each([301, 302, 307, 308])(
  'a redirect with %i delivers nothing, and is not followed',
  async (status) => {
    const target = await serve((_, response) => void response.writeHead(200).end());
    const server = await serve((_, response) => {
      response.writeHead(status, { location: target.url }).end();
    });
    const world = await start(server);
    await world.ledger.append({ events: testWindow(TEST_WINDOW_START, 3) });
    await vi.waitFor(() => expect(world.delivery.status('webhook')?.blocked).toBeDefined());
    expect(world.delivery.status('webhook')).toMatchObject({ cursor: 0, delivered: 0 });
    expect(target.requests).toHaveLength(0);
  },
);

test('no credential reaches a log line, a status, a metric or a dead letter', async () => {
  const statuses = [401, 503, 400];
  const server = await serve((request, response) => {
    const usage = request.body.includes('usage.v1');
    const status = usage ? (statuses.shift() ?? 400) : 200;
    response.writeHead(status).end(`you sent ${CANARY}`);
  });
  const world = await start(server);
  await world.ledger.append({ events: testWindow(TEST_WINDOW_START, 2) });
  await drained(world);
  const [request] = server.requests;
  expect(request?.headers).toMatchObject({ 'x-key': CANARY });
  expect(request?.headers.authorization).toBe(`Basic ${btoa(`user:${CANARY}`)}`);
  const seen = JSON.stringify([
    world.lines,
    world.delivery.statuses(),
    await world.delivery.deadLetters('webhook', 0, 10),
    await world.registry.metrics(),
  ]);
  expect(seen).toContain('HTTP POST /hook: status 400');
  expect(seen).not.toContain(CANARY);
});
