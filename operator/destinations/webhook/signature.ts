import { createHmac } from 'node:crypto';
import type { Secret } from '../../model/secret.ts';

/** The header that carries the signature (spec 5). */
export const SIGNATURE_HEADER = 'x-svc-signature';

/**
 * `t=<unix seconds>,v1=<hex>[,v1=<hex>…]`, one v1 for each secret, so that a receiver may hold the old
 * or the new one while they are rotated. Signed is `<t>.<raw body>` with HMAC-SHA256, the key being the
 * secret's text as it is; no spaces, as verifiers of this scheme refuse them (facts 2.7, 4.3).
 * Undefined when there is nothing to sign with. `now` is milliseconds since the epoch.
 */
export function signatureHeader(
  secrets: readonly Secret[],
  body: string,
  now: number,
): string | undefined {
  if (secrets.length === 0) return undefined;
  const timestamp = Math.floor(now / 1000);
  const signatures = secrets.map((secret) => {
    const hmac = createHmac('sha256', secret.reveal()).update(`${timestamp}.${body}`);
    return `v1=${hmac.digest('hex')}`;
  });
  return [`t=${timestamp}`, ...signatures].join(',');
}
