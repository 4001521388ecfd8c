import { createPublicKey, verify } from 'node:crypto';
import { Stripe } from 'stripe';
import { afterEach, describe, expect, test } from 'vitest';
import { type FakeRequest, startFakeServer } from './fake-server.ts';
import { startFakeLago } from './lago/lago.ts';
import { createLagoKeys, lagoHeaders } from './lago/webhooks.ts';
import { startFakeMetronome } from './metronome/metronome.ts';
import { signWebhook } from './metronome/webhooks.ts';
import { startFakeStripe } from './stripe/stripe.ts';
import { time } from './vectors.ts';
import { growingWaits, WebhookOutbox } from './webhook-outbox.ts';
import type { WebhookSender } from './webhook-sender.ts';

const START = time('01T00');
const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
const SECRET = 'whsec_test_secret';
const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** Starts a receiver of webhooks, which refuses them while `takes` returns false. */
async function receiver(takes: (request: FakeRequest) => boolean = () => true) {
  const server = await startFakeServer({
    handle: (request) => ({ status: takes(request) ? 200 : 500 }),
  });
  closers.push(() => server.close());
  return server;
}

/** Returns the attempts of a message, in seconds after it. */
function attemptsOf(sender: WebhookSender, type: string): readonly number[] {
  const delivery = sender.deliveries().find(({ message }) => message.type === type);
  return (delivery?.attempts ?? []).map(({ at }) => (at - (delivery?.message.at ?? 0)) / SECOND_MS);
}

async function post(url: string, credentials: string, body: unknown, form = false) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${credentials}` },
    body: form ? new URLSearchParams(body as Record<string, string>) : JSON.stringify(body),
  });
  return (await response.json()) as Record<string, unknown>;
}

test('a message that is given up is tried no more, and one that is taken neither', () => {
  const outbox = new WebhookOutbox([3, 18]);
  const messages = ['a', 'b'].map((id) => ({ id, type: 't', at: 0, payload: {} }));
  for (const message of messages) outbox.add(message);
  const tried: string[] = [];
  for (let next = outbox.next(); next !== undefined; next = outbox.next()) {
    tried.push(`${next.message.id}${next.nextAt}`);
    outbox.tried(next.message, next.nextAt, next.message.id === 'b' && next.nextAt === 3);
  }
  expect(tried).toStrictEqual(['a0', 'b0', 'a3', 'b3', 'a21']);
});

test('waits grow to the longest one and end within their time', () => {
  const rule = { firstMs: 5, factor: 2, longestMs: 15, withinMs: 60 };
  expect(growingWaits(rule)).toStrictEqual([5, 10, 15, 15, 15]);
});

describe('Lago', () => {
  async function world() {
    const lago = await startFakeLago({ apiKey: 'key' });
    closers.push(() => lago.close());
    lago.turnTo(START);
    const plan = { name: 'a', code: 'a', interval: 'monthly', amount_cents: 100 };
    await post(`${lago.url}/api/v1/plans`, 'key', { plan: { ...plan, amount_currency: 'USD' } });
    const subscription = { external_customer_id: 'acme', external_id: 'sub', plan_code: 'a' };
    await post(`${lago.url}/api/v1/subscriptions`, 'key', { subscription });
    return lago;
  }

  test('tries three times in 21 seconds and never again', async () => {
    const lago = await world();
    let isUp = false;
    const { url, requests } = await receiver(() => isUp);
    lago.webhooks.connect(url);
    await lago.webhooks.turnTo(time('Feb 01T00:11'));
    isUp = true;
    await lago.webhooks.turnTo(time('Feb 10T00'));
    expect(attemptsOf(lago.webhooks, 'invoice.created')).toStrictEqual([0, 3, 21]);
    expect(requests).toHaveLength(3);
    expect(lago.account().invoices).toMatchObject([{ status: 'finalized' }]);
  });

  test('signs with its own key unless a shared one is requested, and may take another', async () => {
    const lago = await world();
    const { url, requests } = await receiver();
    lago.webhooks.connect(url);
    await lago.webhooks.turnTo(time('Feb 02T00'));
    const publicKey = async (): Promise<string> => {
      const headers = { authorization: 'Bearer key' };
      const answer = await fetch(`${lago.url}/api/v1/webhooks/public_key`, { headers });
      return Buffer.from(await answer.text(), 'base64').toString();
    };
    const isSignedBy = (pem: string, token = ''): boolean => {
      const [head, claims, signature = ''] = token.split('.');
      const signed = Buffer.from(signature, 'base64url');
      const text = Buffer.from(`${head}.${claims}`);
      return verify('RSA-SHA256', text, createPublicKey(pem), signed);
    };
    const [request] = requests;
    const token = request?.headers['x-lago-signature'];
    const before = await publicKey();
    expect(request?.headers['x-lago-signature-algorithm']).toBe('jwt');
    expect(isSignedBy(before, token)).toBe(true);
    const claims = Buffer.from(token?.split('.')[1] ?? '', 'base64url').toString();
    expect(JSON.parse(claims)).toStrictEqual({ data: request?.body, iss: lago.url });
    expect(JSON.parse(request?.body ?? '')).toMatchObject({
      webhook_type: 'invoice.created',
      object_type: 'invoice',
      invoice: { status: 'finalized', total_amount_cents: 100 },
    });
    lago.keys.rotate();
    await lago.webhooks.turnTo(time('Mar 02T00'));
    const later = requests.at(-1)?.headers['x-lago-signature'];
    expect(isSignedBy(before, later)).toBe(false);
    expect(isSignedBy(await publicKey(), later)).toBe(true);
  });

  test('signs with a shared key as its documentation has it', () => {
    const body = '{"webhook_type":"alert.triggered","object_type":"triggered_alert"}';
    const message = { id: 'n', type: 'alert.triggered', at: START, payload: {} };
    const shared = { algorithm: 'hmac', key: 'lago-hmac-key' } as const;
    expect(lagoHeaders(shared, createLagoKeys(), '', body, message)).toStrictEqual({
      'x-lago-signature': 'XsvVDe1j6g507n3f8t+GbXmvpkYY1L/mc3mMv0sMByE=',
      'x-lago-signature-algorithm': 'hmac',
      'x-lago-unique-key': 'n',
    });
  });
});

describe('Stripe', () => {
  async function world(webhookMode: 'live' | 'sandbox' = 'sandbox') {
    const stripe = await startFakeStripe({ apiKey: 'key', webhookMode, webhookSecret: SECRET });
    closers.push(() => stripe.close());
    stripe.turnTo(START);
    const make = async (path: string, fields: Readonly<Record<string, string>>) => {
      const { id } = await post(`${stripe.url}/v1/${path}`, 'key', fields, true);
      return String(id);
    };
    const meter = await make('billing/meters', {
      display_name: 'g',
      event_name: 'g',
      'default_aggregation[formula]': 'sum',
    });
    const customer = await make('customers', { name: 'Acme' });
    const price = await make('prices', {
      currency: 'usd',
      unit_amount_decimal: '100',
      'product_data[name]': 'g',
      'recurring[interval]': 'month',
      'recurring[usage_type]': 'metered',
      'recurring[meter]': meter,
    });
    await make('subscriptions', { customer, 'items[0][price]': price });
    return stripe;
  }

  test('tries for three days in live mode, three times in a sandbox', async () => {
    for (const [mode, attempts, lastHour] of [
      ['sandbox', 3, 3],
      ['live', 13, 69.25],
    ] as const) {
      const stripe = await world(mode);
      const { url } = await receiver(() => false);
      stripe.webhooks.connect(url);
      await stripe.webhooks.turnTo(time('Feb 06T00'));
      const tried = attemptsOf(stripe.webhooks, 'invoice.created');
      expect(tried).toHaveLength(attempts);
      expect((tried.at(-1) ?? 0) / 3_600).toBeCloseTo(lastHour, 1);
    }
  });

  test('holds a draft for three days where nobody takes its webhook, and so its usage open', async () => {
    const stripe = await world();
    const { url } = await receiver(() => false);
    stripe.webhooks.connect(url);
    const statusAt = async (at: string) => {
      await stripe.webhooks.turnTo(time(at));
      return stripe.state.invoices.map(({ status }) => status);
    };
    expect(await statusAt('Feb 01T12')).toStrictEqual(['draft']);
    expect(await statusAt('Feb 03T23:59')).toStrictEqual(['draft']);
    expect(await statusAt('Feb 04T00')).toStrictEqual(['paid']);
  });

  test('makes a draft final within an hour after its webhook was taken', async () => {
    const stripe = await world();
    let isUp = false;
    const { url, requests } = await receiver(() => isUp);
    stripe.webhooks.connect(url);
    await stripe.webhooks.turnTo(time('Feb 01T01:20'));
    isUp = true;
    await stripe.webhooks.turnTo(time('Feb 01T03'));
    expect(stripe.state.invoices.map(({ status }) => status)).toStrictEqual(['draft']);
    await stripe.webhooks.turnTo(time('Feb 01T04'));
    expect(stripe.state.invoices.map(({ status }) => status)).toStrictEqual(['paid']);
    const request = requests.find(({ body }) => body.includes('invoice.finalized'));
    const client = new Stripe('sk_test_key', { telemetry: false });
    const event = client.webhooks.constructEvent(
      request?.body ?? '',
      request?.headers['stripe-signature'] ?? '',
      SECRET,
      300,
      undefined,
      time('Feb 01T04'),
    );
    expect(event).toMatchObject({ type: 'invoice.finalized', data: { object: { total: 0 } } });
  });
});

test('Metronome tries for two days, every quarter of an hour in the end', async () => {
  const metronome = await startFakeMetronome({ apiToken: 'token', webhookSecret: SECRET });
  closers.push(() => metronome.close());
  metronome.turnTo(START);
  let isUp = true;
  const { url, requests } = await receiver(() => isUp);
  metronome.webhooks.connect(url);
  metronome.state.rateCards.push({
    id: metronome.state.nextId(),
    name: 'A',
    created_at: new Date(START).toISOString(),
    aliases: [],
    fiat_credit_type: { id: metronome.state.nextId(), name: 'USD (cents)' },
  });
  const token = 'token';
  const made = await post(`${metronome.url}/v1/customers`, token, { name: 'Acme' });
  const customer_id = (made['data'] as { id: string }).id;
  await post(`${metronome.url}/v1/contracts/create`, token, {
    customer_id,
    rate_card_id: metronome.state.rateCards[0]?.id,
    starting_at: new Date(START).toISOString(),
  });
  await metronome.webhooks.turnTo(time('Feb 02T01'));
  const [request] = requests;
  const seen = time('Feb 02T00');
  const headers = request?.headers ?? {};
  expect(JSON.parse(request?.body ?? '')).toMatchObject({ type: 'invoice.finalized', customer_id });
  expect(headers['x-metronome-date']).toBe(new Date(seen).toUTCString());
  expect(
    signWebhook(SECRET, JSON.parse(request?.body ?? ''), new Date(seen)).headers,
  ).toMatchObject({
    'metronome-webhook-signature': headers['metronome-webhook-signature'],
  });
  isUp = false;
  await metronome.webhooks.turnTo(time('Mar 05T00'));
  const refused = metronome.webhooks.deliveries().at(-1)?.attempts ?? [];
  expect(refused.length).toBeGreaterThan(190);
  expect(refused.length).toBeLessThan(210);
  const [first, last] = [refused[0]?.at ?? 0, refused.at(-1)?.at ?? 0];
  expect(last - first).toBeLessThanOrEqual(48 * HOUR_MS);
  expect(last - (refused.at(-2)?.at ?? 0)).toBe(HOUR_MS / 4);
});
