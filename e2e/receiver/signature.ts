import { createHmac, timingSafeEqual } from 'node:crypto';

/** Carries `t=<seconds since the epoch>,v1=<hex>`, with one `v1` for each secret during rotation. */
export const SIGNATURE_HEADER = 'x-svc-signature';

/** Older or later signatures are refused, as the card payment provider's own libraries do. */
const TOLERANCE_SECONDS = 300;

/**
 * Why a signature is not good for a body, or undefined when it is: one `v1` must be the HMAC-SHA256 of
 * `<t>.<body>` under the secret.
 */
export function refuseSignature(
  header: string | undefined,
  body: Buffer,
  secret: string,
  now: number,
): string | undefined {
  if (header === undefined) {
    const fix = 'give the destination the signing key of this receiver (spec.webhook.secretRefs)';
    return `signature: missing header ${SIGNATURE_HEADER}: ${fix}`;
  }
  const parts = header.split(',').map((part) => part.trim().split('=', 2));
  const time = Number(parts.find(([key]) => key === 't')?.[1] ?? Number.NaN);
  if (!Number.isInteger(time)) return `signature: no time "t" in "${header}"`;
  if (Math.abs(now / 1000 - time) > TOLERANCE_SECONDS) {
    return `signature: stale time "${time}": the clocks differ by more than 5 minutes`;
  }
  const expected = createHmac('sha256', secret).update(`${time}.`).update(body).digest();
  const matches = parts
    .filter(([key]) => key === 'v1')
    .map(([, hex = '']) => Buffer.from(hex, 'hex'))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
  if (matches) return undefined;
  const fix = 'the key that the sender signs with is another than the --secret of this receiver';
  return `signature: no "v1" matches the body under the secret: ${fix}`;
}
