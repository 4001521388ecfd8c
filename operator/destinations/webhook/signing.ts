import { createHash, createHmac } from 'node:crypto';
import type { Secret } from '../../model/secret.ts';
import { hmac } from '../signatures.ts';

/** The header with the time and the signatures. */
const SIGNATURE_HEADER = 'x-svc-signature';

/** A key in the form of Standard Webhooks: base64 after a prefix. */
const ENCODED_KEY = /^whsec_((?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/;

/**
 * Returns the headers that sign a body at `now` (milliseconds since the epoch), in two schemes
 * (docs/how-to/destinations/webhook.md#signature); none without a secret. Every secret signs in
 * both schemes, so that a receiver may have the old or the new one during rotation.
 */
export function signatureHeaders(
  secrets: readonly Secret[],
  body: string,
  now: number,
): Readonly<Record<string, string>> {
  if (secrets.length === 0) return {};
  const timestamp = Math.floor(now / 1000);
  const id = messageId(body);
  return {
    [SIGNATURE_HEADER]: svcSignature(secrets, body, timestamp),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': standardSignature(secrets, `${id}.${timestamp}.${body}`),
  };
}

/**
 * Returns `t=<unix seconds>,v1=<hex>[,v1=<hex>…]`. It signs `<t>.<raw body>` with HMAC-SHA256. The
 * key is the secret's text as it is. There are no spaces, since verifiers of this scheme refuse
 * them.
 */
function svcSignature(secrets: readonly Secret[], body: string, timestamp: number): string {
  const signatures = secrets.map(
    (secret) => `v1=${hmac(secret, `${timestamp}.${body}`).toString('hex')}`,
  );
  return [`t=${timestamp}`, ...signatures].join(',');
}

/**
 * Returns `v1,<base64>[ v1,<base64>…]`
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 */
function standardSignature(secrets: readonly Secret[], signed: string): string {
  return secrets
    .map((secret) => `v1,${createHmac('sha256', keyOf(secret)).update(signed).digest('base64')}`)
    .join(' ');
}

function keyOf(secret: Secret): Buffer {
  const text = secret.reveal();
  const [, encoded] = ENCODED_KEY.exec(text) ?? [];
  return encoded === undefined ? Buffer.from(text) : Buffer.from(encoded, 'base64');
}

/** Returns a message id from the content: the same at each attempt, different for other events. */
function messageId(body: string): string {
  return `msg_${createHash('sha256').update(body).digest('hex').slice(0, 32)}`;
}
