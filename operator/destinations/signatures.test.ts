import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import Metronome from '@metronome/sdk';
import { Stripe } from 'stripe';
import { describe, expect, test } from 'vitest';
import { Secret } from '../model/secret.ts';
import { lagoAlerts } from './lago/alerts.ts';
import { metronomeAlerts } from './metronome/alerts.ts';
import type { SignedRequest } from './signatures.ts';
import { stripeAlerts } from './stripe/alerts.ts';

const NOW = Date.parse('2026-11-21T09:05:00Z');
const SECRETS = [new Secret('whsec_old'), new Secret('whsec_new')];
const BODY = '{"id":"evt_1","type":"invoice.paid"}';

function request(headers: Readonly<Record<string, string>>, body: string = BODY): SignedRequest {
  const lower = new Map(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  return { header: (name) => lower.get(name.toLowerCase()), body: Buffer.from(body) };
}

describe('Stripe', () => {
  const stripe = new Stripe('sk_test_unused');
  const header = (secret: string, timestamp: number, payload = BODY) =>
    stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp });
  const decision = (text: string, body?: string) =>
    stripeAlerts.verify(request({ 'Stripe-Signature': text }, body), SECRETS, NOW).kind;
  const seconds = NOW / 1000;

  test.each(['whsec_old', 'whsec_new'])('what the vendor signs with %s is accepted', (secret) => {
    expect(decision(header(secret, seconds))).toBe('signed');
  });

  test.each([
    [299, 'signed'],
    [300, 'signed'],
    [301, 'refused'],
    [-300, 'signed'],
    [-301, 'refused'],
    [-86_400, 'refused'],
  ])('%i seconds old is %s', (age, expected) => {
    expect(decision(header('whsec_new', seconds - age))).toBe(expected);
  });

  test('the vendor’s own code agrees on age and on what is signed', () => {
    const text = header('whsec_new', seconds - 299);
    const event = stripe.webhooks.constructEvent(BODY, text, 'whsec_new', 300, undefined, NOW);
    expect(event.id).toBe('evt_1');
    const old = header('whsec_new', seconds - 301);
    expect(() =>
      stripe.webhooks.constructEvent(BODY, old, 'whsec_new', 300, undefined, NOW),
    ).toThrow('Timestamp');
  });

  test('the published vector is accepted', () => {
    const body =
      '[{"specversion":"1.0","id":"svc1_0001","source":"control-plane","type":"svc.usage.v1","subject":"tenant-a"}]';
    const text = 't=1700000000,v1=43ce6609afd107d27241e6ae7bddaca8d476e26e4b6657135097c0d4e2909459';
    const signed = request({ 'Stripe-Signature': text }, body);
    const secret = new Secret('whsec_test_secret');
    expect(stripeAlerts.verify(signed, [secret], 1_700_000_000_000).kind).toBe('signed');
  });

  test('one right signature among several is enough, in any order', () => {
    const [time, right] = header('whsec_new', seconds).split(',');
    const wrong = `v1=${'0'.repeat(64)}`;
    expect(decision(`${time},${wrong},${right}`)).toBe('signed');
    expect(decision(`${right},${time}`)).toBe('signed');
    expect(decision(`${time},${wrong}`)).toBe('refused');
  });

  const right = header('whsec_new', seconds);
  test.each([
    ['another body', right, `${BODY} `, 'refused'],
    ['another secret', header('whsec_wrong', seconds), BODY, 'refused'],
    ['only v0', right.replace('v1=', 'v0='), BODY, 'refused'],
    ['upper case', right.toUpperCase().replace('T=', 't=').replace('V1=', 'v1='), BODY, 'refused'],
    ['a space after the comma', right.replace(',', ', '), BODY, 'refused'],
    ['two times', `t=${seconds},${right}`, BODY, 'unsigned'],
    ['no time', right.replace(/^t=\d+,/, ''), BODY, 'unsigned'],
    ['a time that is no number', right.replace(/^t=\d+/, 't=1e9'), BODY, 'unsigned'],
    ['nothing', '', BODY, 'unsigned'],
    ['a thousand signatures', `${right}${`,v1=${'0'.repeat(64)}`.repeat(100)}`, BODY, 'unsigned'],
  ])('%s is not accepted', (_, text, body, expected) => {
    expect(decision(text, body)).toBe(expected);
  });

  test('a missing header is reported as missing', () => {
    expect(stripeAlerts.verify(request({}), SECRETS, NOW)).toStrictEqual({
      kind: 'unsigned',
      reason: 'missing: Stripe-Signature header',
    });
  });
});

describe('Metronome', () => {
  const sign = (secret: string, date: string, body: string) =>
    createHmac('sha256', secret).update(`${date}\n${body}`).digest('hex');
  const decision = (headers: Readonly<Record<string, string>>, body = BODY, now = NOW) =>
    metronomeAlerts.verify(request(headers, body), SECRETS, now).kind;
  const dated = (date: string, secret = 'whsec_new') => ({
    'X-Metronome-Date': date,
    'Metronome-Webhook-Signature': sign(secret, date, BODY),
  });
  const at = (ms: number) => new Date(ms).toUTCString();

  test('the published vector is accepted', () => {
    const date = 'Mon, 02 Jan 2006 22:04:05 GMT';
    const body = JSON.stringify(
      {
        id: 'b2c9e307-624e-4e7d-a5a4-1b74107d78c4',
        type: 'widget_created',
        properties: {
          customer_id: '5f794d50-085a-4db6-8d15-286e518b7225',
          widget_id: '0891458d-b6f0-4fdd-a41e-380aae1a1e38',
        },
      },
      undefined,
      2,
    );
    const signature = 'b82652fa2246cf1d8a27e591f155c865f68b46c19b9213fd9c052f2419b4742b';
    const headers = { 'X-Metronome-Date': date, 'Metronome-Webhook-Signature': signature };
    const secret = new Secret('correct-horse-battery-staple');
    expect(metronomeAlerts.verify(request(headers, body), [secret], Date.parse(date)).kind).toBe(
      'signed',
    );
  });

  test('the vendor’s own code accepts what is accepted here', () => {
    const now = Date.now();
    const headers = dated(at(now));
    const client = new Metronome({ bearerToken: 'unused', webhookSecret: 'whsec_new' });
    expect(client.webhooks.unwrap(BODY, headers)).toStrictEqual(JSON.parse(BODY));
    expect(decision(headers, BODY, now)).toBe('signed');
  });

  test.each([
    [300_000, 'signed'],
    [301_000, 'refused'],
    [-300_000, 'signed'],
    [-301_000, 'refused'],
  ])('%i ms old is %s', (age, expected) => {
    expect(decision(dated(at(NOW - age)))).toBe(expected);
    expect(decision(dated(at(NOW - age), 'whsec_old'))).toBe(expected);
  });

  test('the general Date header stands in, and the vendor’s own wins', () => {
    const date = at(NOW);
    const signature = sign('whsec_new', date, BODY);
    const signed = { 'Metronome-Webhook-Signature': signature };
    expect(decision({ ...signed, Date: date })).toBe('signed');
    const other = at(NOW - 1000);
    expect(decision({ ...signed, Date: other, 'X-Metronome-Date': date })).toBe('signed');
    expect(decision({ ...signed, Date: date, 'X-Metronome-Date': other })).toBe('refused');
  });

  test.each([
    ['no signature', { 'X-Metronome-Date': at(NOW) }],
    ['no date', { 'Metronome-Webhook-Signature': 'a'.repeat(64) }],
    ['a date of another form', { ...dated(new Date(NOW).toISOString()) }],
    ['a signature that is no hash', { ...dated(at(NOW)), 'Metronome-Webhook-Signature': 'yes' }],
  ])('%s is reported', (_, headers) => {
    expect(decision(headers)).toBe('unsigned');
  });

  test('another body or secret is refused', () => {
    expect(decision(dated(at(NOW)), `${BODY} `)).toBe('refused');
    expect(decision(dated(at(NOW), 'whsec_wrong'))).toBe('refused');
  });
});

describe('Lago', () => {
  const body = '{"webhook_type":"alert.triggered","object_type":"triggered_alert"}';
  const signature = 'XsvVDe1j6g507n3f8t+GbXmvpkYY1L/mc3mMv0sMByE=';
  const headers = { 'X-Lago-Signature': signature, 'X-Lago-Unique-Key': 'k1' };
  const secrets = [new Secret('other'), new Secret('lago-hmac-key')];
  const decision = (changed: Readonly<Record<string, string>>, text = body) =>
    lagoAlerts.verify(request({ ...headers, ...changed }, text), secrets, NOW);

  test('the published vector is accepted, with and without the algorithm', () => {
    expect(decision({}).kind).toBe('signed');
    expect(decision({ 'X-Lago-Signature-Algorithm': 'hmac' }).kind).toBe('signed');
  });

  test('another body or key is refused', () => {
    expect(decision({}, `${body} `).kind).toBe('refused');
    const wrong = createHmac('sha256', 'wrong').update(body).digest('base64');
    expect(decision({ 'X-Lago-Signature': wrong }).kind).toBe('refused');
  });

  test('another algorithm is reported', () => {
    expect(decision({ 'X-Lago-Signature-Algorithm': 'none' })).toMatchObject({
      kind: 'unsigned',
      reason: 'neither hmac nor jwt: X-Lago-Signature-Algorithm header',
    });
  });

  test.each<Record<string, string>>([{ 'X-Lago-Unique-Key': '' }, { 'X-Lago-Signature': 'short' }])(
    '%j is reported',
    (bad) => {
      expect(decision(bad).kind).toBe('unsigned');
    },
  );
});

describe('Lago with its own key', () => {
  const body = '{"webhook_type":"alert.triggered","object_type":"triggered_alert"}';
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString();
  const { publicKey: other } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = (claims: unknown = { data: body, iss: 'x' }, head: unknown = { alg: 'RS256' }) => {
    const text = `${encode(head)}.${encode(claims)}`;
    return `${text}.${sign('RSA-SHA256', Buffer.from(text), privateKey).toString('base64url')}`;
  };
  const decision = (text: string, keys = [pem], sent = body, unique = 'k1') =>
    lagoAlerts.publicKey?.verify(
      request(
        {
          'X-Lago-Signature': text,
          'X-Lago-Signature-Algorithm': 'jwt',
          'X-Lago-Unique-Key': unique,
        },
        sent,
      ),
      keys,
    ).kind;

  test('is accepted with any of its keys', () => {
    const another = other.export({ type: 'spki', format: 'pem' }).toString();
    expect(decision(token())).toBe('signed');
    expect(decision(token(), [another, pem])).toBe('signed');
    expect(decision(token(), [another])).toBe('refused');
    expect(decision(token(), [])).toBe('refused');
  });

  test('is refused with another body than the one that is signed', () => {
    expect(decision(token(), [pem], `${body} `)).toBe('refused');
    expect(decision(token({ iss: 'x' }))).toBe('refused');
    expect(decision(token({ data: JSON.parse(body) }))).toBe('refused');
  });

  test('does not let a token choose how it is verified', () => {
    const hs = `${encode({ alg: 'HS256' })}.${encode({ data: body })}`;
    const mac = createHmac('sha256', pem).update(hs).digest('base64url');
    expect(decision(`${hs}.${mac}`)).toBe('refused');
    const none = `${encode({ alg: 'none' })}.${encode({ data: body })}`;
    expect(decision(`${none}.AA`)).toBe('refused');
    expect(decision(token(undefined, { alg: 'none' }))).toBe('refused');
    expect(decision(token(), ['no key'])).toBe('refused');
  });

  test.each([
    ['nothing', '', 'k1'],
    ['an HMAC', 'XsvVDe1j6g507n3f8t+GbXmvpkYY1L/mc3mMv0sMByE=', 'k1'],
    ['no unique key', token(), ''],
  ])('%s is reported', (_, text, unique) => {
    expect(decision(text, [pem], body, unique)).toBe('unsigned');
  });
});
