import { createHmac } from 'node:crypto';
import type { Random } from '../../faults/random.ts';
import { mutated } from './mutate.ts';
import { again, query, type PeerMeans } from './peer-requests.ts';
import { expandMarks, hostileText, hostileValue } from './values.ts';

export interface WebhookMeans extends PeerMeans {
  /** What each billing system signs with, by the name in its webhook's path. */
  readonly secrets: Readonly<Record<string, string>>;
}

/** Messages of billing systems, and of those who pretend to be one. */
export interface WebhookAttack {
  readonly name: string;
  make(random: Random): (means: WebhookMeans) => Promise<void>;
}

type Sign = (body: string, secret: string, at: number) => Readonly<Record<string, string>>;

/** How each billing system signs what it sends. */
const SIGN: Readonly<Record<string, Sign>> = {
  lago: (body, secret, at) => ({
    'x-lago-signature': createHmac('sha256', secret).update(body).digest('base64'),
    'x-lago-signature-algorithm': 'hmac',
    'x-lago-unique-key': `key-${at}-${Math.abs(hash(body))}`,
  }),
  stripe: (body, secret, at) => {
    const time = Math.floor(at / 1000);
    const mac = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex');
    return { 'stripe-signature': `t=${time},v1=${mac}` };
  },
  metronome: (body, secret, at) => {
    const date = new Date(at).toUTCString();
    const mac = createHmac('sha256', secret).update(`${date}\n${body}`).digest('hex');
    return { date, 'metronome-webhook-signature': mac };
  },
};

const PROVIDERS = Object.keys(SIGN);

export const WEBHOOK_ATTACKS: readonly WebhookAttack[] = [
  {
    name: 'messages that are not signed',
    make: (random) => (means) =>
      again(means, 5, () => post(means, random.pick(PROVIDERS), messageOf(random), {})),
  },
  {
    name: 'messages that are signed by somebody else',
    make: (random) => (means) =>
      again(means, 10, () => {
        const provider = random.pick(PROVIDERS);
        const body = messageOf(random);
        const sign = SIGN[random.pick(PROVIDERS)];
        return post(means, provider, body, sign?.(body, 'guessed', Date.now()) ?? {});
      }),
  },
  {
    name: 'messages that are signed and mutated',
    make: (random) => (means) =>
      again(means, 30, () => {
        const provider = random.pick(PROVIDERS);
        const body = messageOf(random);
        const at = Date.now() + random.pick([0, 0, 0, -3_600_000, 3_600_000, -2_678_400_000]);
        const secret = means.secrets[provider] ?? '';
        return post(means, provider, body, SIGN[provider]?.(body, secret, at) ?? {});
      }),
  },
  {
    name: 'large messages',
    make: (random) => {
      const body = random.pick(['[', '{"a":', ' ', '"']).repeat(200_000);
      return (means) => again(means, 50, () => post(means, random.pick(PROVIDERS), body, {}));
    },
  },
];

function post(
  means: WebhookMeans,
  provider: string,
  body: string,
  headers: Readonly<Record<string, string>>,
): Promise<unknown> {
  const path = `/webhooks/${provider}`;
  return query(means, {
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });
}

/** About nobody that is honest: what a billing system says of a tenant is to be believed. */
function messageOf(random: Random): string {
  const customer = random.pick(['tenant-stranger', hostileText(random)]);
  const message = random.pick([
    {
      webhook_type: 'alert.triggered',
      object_type: 'triggered_alert',
      triggered_alert: { external_customer_id: customer, triggered_at: hostileText(random) },
      organization_id: hostileValue(random),
    },
    {
      id: `evt_${random.seed()}`,
      type: 'invoice.payment_failed',
      created: random.pick([0, 1e15, -1]),
      data: { object: { customer, id: 'in_1', metadata: hostileValue(random) } },
    },
    {
      id: `m-${random.seed()}`,
      type: 'alerts.spend_threshold_reached',
      properties: { customer_id: customer, timestamp: hostileText(random) },
    },
  ]);
  return expandMarks(JSON.stringify(mutated(message, random))).slice(0, 2_000_000);
}

function hash(text: string): number {
  let sum = 0;
  for (const character of text.slice(0, 200))
    sum = (sum * 31 + (character.codePointAt(0) ?? 0)) | 0;
  return sum;
}
