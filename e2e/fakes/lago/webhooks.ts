import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import type { FakeResponse } from '../fake-server.ts';
import type { WebhookMessage } from '../webhook-outbox.ts';
import type { Notice } from './state.ts';

const SECOND_MS = 1_000;
const ATTEMPTS = 3;
const ORGANIZATION = '1a900000-0000-4000-8000-000000000000';

/**
 * The waits between three attempts. The n-th failure is followed by n⁴ + 2 seconds, to which Lago
 * adds up to 15 % by chance (lago-api app/services/webhooks/send_http_service.rb).
 */
export const LAGO_WAITS: readonly number[] = Array.from(
  { length: ATTEMPTS - 1 },
  (_, index) => ((index + 1) ** 4 + 2) * SECOND_MS,
);

/** `jwt` is the default of an endpoint; `hmac` must be requested. */
export type LagoSignature =
  | { readonly algorithm: 'jwt' }
  | { readonly algorithm: 'hmac'; readonly key: string };

/** The key pair with which an installation signs `jwt`. */
export interface LagoKeys {
  /** Replaces the key pair. */
  rotate(): void;
  /** Returns the public key like `GET /api/v1/webhooks/public_key`: PEM in base64. */
  publicKey(): string;
  readonly privateKey: () => KeyObject;
}

export function createLagoKeys(): LagoKeys {
  const make = () => generateKeyPairSync('rsa', { modulusLength: 2048 });
  let pair: ReturnType<typeof make> | undefined;
  const current = () => (pair ??= make());
  return {
    rotate: () => {
      pair = make();
    },
    publicKey: () => {
      const pem = current().publicKey.export({ type: 'spki', format: 'pem' });
      return Buffer.from(pem).toString('base64').replace(/.{60}/g, '$&\n');
    },
    privateKey: () => current().privateKey,
  };
}

/** Answers both routes of the public key. */
export function showPublicKey(keys: LagoKeys, path: string): FakeResponse {
  const key = keys.publicKey();
  return path.endsWith('json_public_key')
    ? { status: 200, body: { webhook: { public_key: key } } }
    : { status: 200, body: key };
}

export function lagoMessage({ id, type, objectType, about, at }: Notice): WebhookMessage {
  const payload = {
    webhook_type: type,
    object_type: objectType,
    organization_id: ORGANIZATION,
    [objectType]: about,
  };
  return { id, type, at, payload };
}

export function lagoHeaders(
  signature: LagoSignature,
  keys: LagoKeys,
  issuer: string,
  body: string,
  message: WebhookMessage,
): Record<string, string> {
  const signed =
    signature.algorithm === 'hmac'
      ? createHmac('sha256', signature.key).update(body).digest('base64')
      : jwt({ data: body, iss: issuer }, keys.privateKey());
  return {
    'x-lago-signature': signed,
    'x-lago-signature-algorithm': signature.algorithm,
    'x-lago-unique-key': message.id,
  };
}

function jwt(claims: unknown, key: KeyObject): string {
  const parts = [{ alg: 'RS256' }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  );
  const text = parts.join('.');
  return `${text}.${sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')}`;
}
