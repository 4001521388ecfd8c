import { type CloudEvent, HTTP } from 'cloudevents';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Stripe } from 'stripe';
import { afterEach, describe, expect, test } from 'vitest';
import { Secret } from '../../model/secret.ts';
import type { WebhookSettings } from './settings.ts';
import { TEST_WINDOW_START, testEvent, testWindow } from '../../ledger/testing/events.ts';
import {
  type Responder,
  startTestServer,
  type HttpTestServer,
} from '../../outbound/testing/test-server.ts';
import { COLLECTOR_METRICS } from '../../model/catalog.ts';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import type { DeliveryOutcome } from '../destination.ts';
import { createTestContext, testTenant } from '../testing/context.ts';
import { Webhook } from './webhook.ts';

const closers: (() => Promise<void>)[] = [];
const signal = new AbortController().signal;

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function receiver(answer: Responder): Promise<HttpTestServer> {
  const server = await startTestServer(answer);
  closers.push(() => server.close());
  return server;
}

function answering(status: number, headers: Record<string, string> = {}): Responder {
  return (_, response) => void response.writeHead(status, headers).end();
}

function webhookTo(
  url: string,
  settings: Partial<WebhookSettings> = {},
  context = createTestContext(),
): Webhook {
  const webhook = new Webhook(
    'webhook',
    { url, secrets: [], headers: new Map(), source: 'control-plane', ...settings },
    context,
  );
  closers.push(() => webhook.close());
  return webhook;
}

async function outcomeOf(answer: Responder, events = [testEvent()]): Promise<DeliveryOutcome> {
  const server = await receiver(answer);
  const [outcome] = await webhookTo(`${server.url}/hook?key=canary`).send(events, signal);
  if (outcome === undefined) throw new Error('no outcome');
  return outcome;
}

function parse(server: HttpTestServer, index = 0): CloudEvent<unknown>[] {
  const request = server.requests[index];
  if (request === undefined) throw new Error(`no request ${index}`);
  const parsed = HTTP.toEvent<unknown>({ headers: { ...request.headers }, body: request.body });
  return [parsed].flat() as CloudEvent<unknown>[];
}

describe('a batch', () => {
  test('is read by the CloudEvents SDK, with every event as it is in the ledger', async () => {
    const server = await receiver(answering(202));
    const events = [...testWindow(TEST_WINDOW_START, 3), testEvent({ quantity: '0.000000001' })];
    const outcomes = await webhookTo(server.url).send(events, signal);
    expect(outcomes).toStrictEqual(events.map(() => ({ kind: 'delivered' })));
    expect(server.requests[0]?.headers['content-type']).toBe('application/cloudevents-batch+json');
    const parsed = parse(server);
    expect(parsed.map((event) => event.toJSON())).toEqual(
      events.map((event) => ({
        specversion: '1.0',
        id: event.id,
        source: 'control-plane',
        type: `io.meterfeed.usage.v1.${event.metric}`,
        subject: event.tenant,
        time: '2026-11-21T09:00:00.000Z',
        datacontenttype: 'application/json',
        data: JSON.parse(encodeEvent(event)) as unknown,
      })),
    );
  });

  test('carries the quantity as a plain number, digit for digit', async () => {
    const server = await receiver(answering(200));
    await webhookTo(server.url).send([testEvent({ quantity: '0.000000001' })], signal);
    expect(server.requests[0]?.body).toContain('"quantity":0.000000001}');
  });

  test('carries the configured headers, and they cannot change its media type', async () => {
    const server = await receiver(answering(200));
    const headers = new Map([
      ['Authorization', new Secret('Bearer token')],
      ['Content-Type', new Secret('text/plain')],
    ]);
    await webhookTo(server.url, { headers }).send([testEvent()], signal);
    expect(server.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer token',
      'content-type': 'application/cloudevents-batch+json',
    });
  });

  test('is announced with the bytes that it takes, so that size bounds hold', async () => {
    const server = await receiver(answering(200));
    const events = testWindow(TEST_WINDOW_START, 20);
    const webhook = webhookTo(server.url);
    await webhook.send(events, signal);
    const announced = events.reduce(
      (sum, event) => sum + (webhook.limits.batchBytes?.sizeOf(event) ?? 0),
      1,
    );
    expect(Buffer.byteLength(server.requests[0]?.body ?? '')).toBe(announced);
  });
});

describe('the signature', () => {
  const stripe = new Stripe('sk_test_unused');

  function verify(server: HttpTestServer, index: number, secret: string): unknown {
    const request = server.requests[index];
    const header = String(request?.headers['x-svc-signature']);
    return stripe.webhooks.constructEvent(request?.body ?? '', header, secret);
  }

  test("is accepted by Stripe's verifier under every secret of a rotation, and no other", async () => {
    const server = await receiver(answering(200));
    const secrets = [new Secret('whsec_old'), new Secret('whsec_new')];
    await webhookTo(server.url, { secrets }).send([testEvent()], signal);
    for (const secret of ['whsec_old', 'whsec_new']) {
      expect(verify(server, 0, secret)).toHaveLength(1);
    }
    expect(() => verify(server, 0, 'whsec_other')).toThrow(/signature/);
  });

  test('is fresh at each attempt, or a retry after five minutes would be refused', async () => {
    const server = await receiver(answering(503));
    let now = Date.now() - 3_600_000;
    const context = createTestContext({
      now: () => now,
      monotonic: () => 0,
      sleep: async () => undefined,
    });
    const webhook = webhookTo(server.url, { secrets: [new Secret('s')] }, context);
    const events = [testEvent()];
    await webhook.send(events, signal);
    now += 3_600_000;
    await webhook.send(events, signal);
    expect(() => verify(server, 0, 's')).toThrow(/tolerance/);
    expect(verify(server, 1, 's')).toHaveLength(1);
    expect(parse(server, 1).map(({ id }) => id)).toStrictEqual(events.map(({ id }) => id));
  });

  test('is absent without a secret', async () => {
    const server = await receiver(answering(200));
    await webhookTo(server.url).send([testEvent()], signal);
    expect(server.requests[0]?.headers).not.toHaveProperty('x-svc-signature');
    expect(server.requests[0]?.headers).not.toHaveProperty('webhook-signature');
  });
});

describe('the signature of Standard Webhooks', () => {
  /** Verifies a request like a receiver with the Standard Webhooks library. */
  function verify(server: HttpTestServer, index: number, library: StandardWebhook): unknown {
    const request = server.requests[index];
    const headers = Object.fromEntries(
      Object.entries(request?.headers ?? {}).map(([name, value]) => [name, String(value)]),
    );
    return library.verify(request?.body ?? '', headers);
  }

  const raw = (secret: string): StandardWebhook => new StandardWebhook(secret, { format: 'raw' });
  const encoded = `whsec_${Buffer.from('a key of twenty-four bytes, or more').toString('base64')}`;

  test('is refused by its library under a secret of a rotation', async () => {
    const server = await receiver(answering(200));
    const secrets = [new Secret('0123456789abcdef'), new Secret(encoded)];
    await webhookTo(server.url, { secrets }).send([testEvent()], signal);
    expect(verify(server, 0, raw('0123456789abcdef'))).toHaveLength(1);
    expect(verify(server, 0, new StandardWebhook(encoded))).toHaveLength(1);
    expect(() => verify(server, 0, raw('fedcba9876543210'))).toThrow(/signature/);
    expect(() => verify(server, 0, raw(encoded))).toThrow(/signature/);
  });

  test('is wrong under a secret that only looks like one in base64', async () => {
    const server = await receiver(answering(200));
    const secrets = [new Secret('whsec_not-base64')];
    await webhookTo(server.url, { secrets }).send([testEvent()], signal);
    expect(verify(server, 0, raw('whsec_not-base64'))).toHaveLength(1);
  });

  test('holds for another body, id or time', async () => {
    const server = await receiver(answering(200));
    await webhookTo(server.url, { secrets: [new Secret('s')] }).send([testEvent()], signal);
    const [request] = server.requests;
    if (request === undefined) throw new Error('no request');
    const { body, headers } = request;
    const given = {
      'webhook-id': String(headers['webhook-id']),
      'webhook-timestamp': String(headers['webhook-timestamp']),
      'webhook-signature': String(headers['webhook-signature']),
    };
    const later = String(Number(given['webhook-timestamp']) + 1);
    expect(raw('s').verify(body, given)).toHaveLength(1);
    expect(() => raw('s').verify(`${body} `, given)).toThrow(/signature/);
    expect(() => raw('s').verify(body, { ...given, 'webhook-id': 'msg_1' })).toThrow(/signature/);
    expect(() => raw('s').verify(body, { ...given, 'webhook-timestamp': later })).toThrow(
      /signature/,
    );
  });

  test('has another id at the next attempt, or the same for other events', async () => {
    const server = await receiver(answering(503));
    const webhook = webhookTo(server.url, { secrets: [new Secret('s')] });
    const [first, second] = testWindow(TEST_WINDOW_START, 2);
    if (first === undefined || second === undefined) throw new Error('two events are needed');
    for (const event of [first, first, second]) await webhook.send([event], signal);
    const [id, again, other] = server.requests.map(({ headers }) => headers['webhook-id']);
    expect(id).toMatch(/^msg_[0-9a-f]{32}$/);
    expect(again).toBe(id);
    expect(other).not.toBe(id);
  });
});

describe('an answer', () => {
  test.each([200, 201, 202, 204])('%i is delivered', async (status) => {
    expect(await outcomeOf(answering(status))).toStrictEqual({ kind: 'delivered' });
  });

  test.each([408, 425, 429, 500, 502, 503, 504])('%i is tried again', async (status) => {
    expect(await outcomeOf(answering(status))).toEqual({
      kind: 'retry',
      reason: `HTTP POST /hook: status ${status}`,
    });
  });

  test.each([429, 503])('%i with Retry-After is tried again only then', async (status) => {
    expect(await outcomeOf(answering(status, { 'retry-after': '7' }))).toMatchObject({
      kind: 'retry',
      afterMs: 7000,
    });
  });

  test.each([301, 302, 307, 401, 403, 404, 410, 415])(
    '%i holds the destination instead of losing its events',
    async (status) => {
      const headers = { location: 'http://127.0.0.1:1/elsewhere' };
      const outcome = await outcomeOf(answering(status, headers));
      expect(outcome.kind).toBe('blocked');
      expect(JSON.stringify(outcome)).not.toContain('canary');
    },
  );

  describe.each([401, 403])('%i names credentials that are not configured', (status) => {
    const secrets = [new Secret('whsec_key')];
    const headers = new Map([['Authorization', new Secret('Bearer token')]]);
    const reasonOf = async (settings: Partial<WebhookSettings>, user = ''): Promise<string> => {
      const server = await receiver(answering(status));
      const url = server.url.replace('http://', `http://${user}`);
      const [outcome] = await webhookTo(url, settings).send([testEvent()], signal);
      return outcome?.kind === 'blocked'
        ? outcome.reason
        : `not blocked: ${JSON.stringify(outcome)}`;
    };

    test('with a signing key alone', async () => {
      const reason = await reasonOf({ secrets });
      expect(reason).toContain('the signing key in spec.webhook.secretRefs (WEBHOOK_SECRET)');
      expect(reason).not.toMatch(/headers|WEBHOOK_HEADERS/);
    });

    test('with headers alone', async () => {
      const reason = await reasonOf({ headers });
      expect(reason).toContain('the credentials in spec.webhook.headers (WEBHOOK_HEADERS)');
      expect(reason).not.toMatch(/secretRefs|signing/);
    });

    test('with all of them', async () => {
      const reason = await reasonOf({ secrets, headers }, 'user:canary@');
      expect(reason).toMatch(
        /spec\.webhook\.secretRefs.*spec\.webhook\.headers.*spec\.webhook\.url/,
      );
      expect(reason).not.toContain('canary');
    });

    test('with none', async () => {
      expect(await reasonOf({})).toContain('no credential is configured; ');
    });
  });

  test.each([400, 413, 422])('%i is narrowed down to the event at fault', async (status) => {
    expect((await outcomeOf(answering(status))).kind).toBe('split');
  });

  test('that never comes is tried again', async () => {
    const outcome = await outcomeOf((_, __, socket) => void socket.resetAndDestroy());
    expect(outcome).toMatchObject({ kind: 'retry' });
  });

  test('of 413 makes later batches smaller', async () => {
    const server = await receiver(answering(413));
    const webhook = webhookTo(server.url);
    const events: UsageEvent[] = testWindow(TEST_WINDOW_START, 200);
    await webhook.send(events, signal);
    const body = Buffer.byteLength(server.requests[0]?.body ?? '');
    expect(webhook.limits.batchBytes?.most).toBe(Math.floor(body / 2));
  });
});

describe('lifecycle events', () => {
  test('report the catalogue, tenants and their end, and the CloudEvents SDK reads them', async () => {
    const server = await receiver(answering(204));
    const webhook = webhookTo(server.url);
    expect(await webhook.bootstrap(COLLECTOR_METRICS, signal)).toStrictEqual({ kind: 'done' });
    expect(await webhook.customers.provision(testTenant(), signal)).toStrictEqual({ kind: 'done' });
    expect(await webhook.customers.offboard(testTenant(), signal)).toStrictEqual({ kind: 'done' });
    const [catalog, tenant, end] = [0, 1, 2].map((index) => parse(server, index)[0]);
    expect(catalog).toMatchObject({ type: 'io.meterfeed.catalog.v1', subject: 'control-plane' });
    expect(catalog?.data).toMatchObject({
      metrics: COLLECTOR_METRICS.map(({ code, aggregationField }) => ({
        code,
        aggregation_field: aggregationField,
      })),
    });
    expect(tenant).toMatchObject({
      type: 'io.meterfeed.tenant.v1',
      subject: 'tenant-vcluster-a-a',
      data: { tenant: 'tenant-vcluster-a-a', display_name: 'Team A' },
    });
    expect(end).toMatchObject({
      type: 'io.meterfeed.tenant.offboarded.v1',
      subject: 'tenant-vcluster-a-a',
    });
  });

  test('keep their id over retries, and get a new one when there is something new to say', async () => {
    const server = await receiver(answering(503));
    let now = TEST_WINDOW_START;
    const context = createTestContext({
      now: () => now,
      monotonic: () => 0,
      sleep: async () => undefined,
    });
    const webhook = webhookTo(server.url, {}, context);
    for (const displayName of ['One', 'One', 'Two', 'One']) {
      await webhook.customers.provision(testTenant({ displayName }), signal);
      now += 60_000;
    }
    const ids = [0, 1, 2, 3].map((index) => parse(server, index)[0]?.id);
    expect(ids[0]).toBe(ids[1]);
    expect(new Set(ids).size).toBe(3);
  });

  test('report a threshold under one id at every attempt, also after a restart', async () => {
    const server = await receiver(answering(503));
    const at = TEST_WINDOW_START;
    const notice = {
      id: '0123456789abcdef0123',
      tenant: 'acme',
      percent: 80,
      amount: '500',
      at,
      ...({ period: 'month', periodStart: Date.UTC(2026, 10, 1) } as const),
      counts: { kind: 'money', currency: 'EUR' } as const,
    };
    for (const _ of [1, 2]) {
      expect(await webhookTo(server.url).notices.notify(notice, signal)).toMatchObject({
        kind: 'retry',
      });
    }
    const [first, second] = [0, 1].map((index) => parse(server, index)[0]?.toJSON());
    expect(second).toStrictEqual(first);
    expect(first).toMatchObject({
      id: 'budget-0123456789abcdef0123',
      type: 'io.meterfeed.budget.v1.threshold',
      subject: 'acme',
      time: '2026-11-21T09:00:00.000Z',
      data: {
        tenant: 'acme',
        percent: 80,
        amount: '500',
        currency: 'EUR',
        period: 'month',
        period_start: '2026-11-01T00:00:00.000Z',
        reached_at: '2026-11-21T09:00:00.000Z',
      },
    });
  });

  test('that a receiver does not understand do not stop its usage', async () => {
    const server = await receiver(answering(422));
    expect(await webhookTo(server.url).customers.provision(testTenant(), signal)).toStrictEqual({
      kind: 'done',
    });
  });

  test('wait for a receiver that is down', async () => {
    const server = await receiver(answering(503));
    expect(await webhookTo(server.url).customers.provision(testTenant(), signal)).toMatchObject({
      kind: 'retry',
    });
  });
});

test.each(['', 'two words', 'tab\t', 'ü'])(
  'a source that makes readers refuse whole batches is refused at start: %j',
  (source) => {
    expect(() => webhookTo('http://127.0.0.1:1', { source })).toThrow(/not a URI reference/);
  },
);
