import { createHmac } from 'node:crypto';
import { Stripe } from 'stripe';
import type { SignedRequest } from '../../../destinations/signatures.ts';

/** The secrets that {@link signed} signs with, as they are configured. */
export const WEBHOOK_SECRETS = {
  STRIPE_WEBHOOK_SECRET: 'whsec_stripe_canary',
  METRONOME_WEBHOOK_SECRET: 'metronome-canary',
  LAGO_WEBHOOK_SECRET: 'lago-canary',
} as const;

/** A message as a billing system posts it. */
export interface SignedMessage {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const stripe = new Stripe('sk_test_unused');

/** An event of Stripe, signed by the vendor's own code at `now` (milliseconds since the epoch). */
export function stripeMessage(
  event: {
    readonly id: string;
    readonly type: string;
    /** Milliseconds since the epoch. */
    readonly at: number;
    readonly object: object;
  },
  now: number,
  secret: string = WEBHOOK_SECRETS.STRIPE_WEBHOOK_SECRET,
): SignedMessage {
  const { id, type, object } = event;
  const created = Math.floor(event.at / 1000);
  const body = JSON.stringify({ id, object: 'event', type, created, data: { object } });
  const timestamp = Math.floor(now / 1000);
  const signature = stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp });
  return { headers: { 'Stripe-Signature': signature }, body };
}

/** The event that says in which status a customer's subscription is. */
export function subscriptionEvent(
  id: string,
  status: string,
  at: number,
  { customer = 'cus_1', subscription = 'sub_1' } = {},
) {
  const object = { object: 'subscription', id: subscription, customer, status };
  return { id, type: 'customer.subscription.updated', at, object };
}

/** A message of Metronome, signed as its documentation says. */
export function metronomeMessage(
  message: { readonly id: string; readonly type: string; readonly properties: object },
  now: number,
): SignedMessage {
  const body = JSON.stringify(message);
  const date = new Date(now).toUTCString();
  const signature = createHmac('sha256', WEBHOOK_SECRETS.METRONOME_WEBHOOK_SECRET)
    .update(`${date}\n${body}`)
    .digest('hex');
  return {
    headers: { 'X-Metronome-Date': date, 'Metronome-Webhook-Signature': signature },
    body,
  };
}

/** A webhook of Lago, signed as its documentation says. */
export function lagoMessage(
  uniqueKey: string,
  type: string,
  objectType: string,
  object: object,
): SignedMessage {
  const body = JSON.stringify({
    webhook_type: type,
    object_type: objectType,
    organization_id: 'org',
    [objectType]: object,
  });
  const signature = createHmac('sha256', WEBHOOK_SECRETS.LAGO_WEBHOOK_SECRET)
    .update(body)
    .digest('base64');
  return {
    headers: {
      'X-Lago-Signature': signature,
      'X-Lago-Signature-Algorithm': 'hmac',
      'X-Lago-Unique-Key': uniqueKey,
    },
    body,
  };
}

/** A message as the HTTP server hands it on. */
export function asRequest({ headers, body }: SignedMessage): SignedRequest {
  const lower = new Map(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  return { header: (name) => lower.get(name.toLowerCase()), body: Buffer.from(body) };
}
