import type { Secret } from '../../model/secret.ts';
import {
  anyMatches,
  hmac,
  type SignatureVerdict,
  type SignedRequest,
  TOLERANCE_SECONDS,
} from './verdict.ts';

const HEADER = 'Stripe-Signature';
const TIME = /^t=(\d{1,12})$/;
const SIGNATURE = /^v1=([0-9a-f]{64})$/;
/** More signatures than secrets that anybody rotates. */
const MOST_PARTS = 20;

/**
 * `Stripe-Signature: t=<unix seconds>,v1=<hex>[,v1=<hex>...]` over `<t>.<body>` (facts/destinations.md
 * 2.7). Unlike the vendor's own code it also refuses times ahead of ours and two times (security D.9).
 */
export function verifyStripe(
  request: SignedRequest,
  secrets: readonly Secret[],
  now: number,
): SignatureVerdict {
  const header = request.header(HEADER);
  if (header === undefined) return { kind: 'unsigned', reason: `missing: ${HEADER} header` };
  const parts = header.split(',', MOST_PARTS + 1);
  const times = parts.flatMap((part) => TIME.exec(part)?.[1] ?? []);
  const signatures = parts.flatMap((part) => SIGNATURE.exec(part)?.[1] ?? []);
  const [time] = times;
  if (time === undefined || times.length > 1 || parts.length > MOST_PARTS) {
    return { kind: 'unsigned', reason: `not of the form t=...,v1=...: ${HEADER} header` };
  }
  const expected = secrets.map((secret) => hmac(secret, `${time}.`, request.body));
  const matches = anyMatches(
    signatures.map((signature) => Buffer.from(signature, 'hex')),
    expected,
  );
  const inTime = Math.abs(Math.floor(now / 1000) - Number(time)) <= TOLERANCE_SECONDS;
  return matches && inTime ? { kind: 'signed' } : { kind: 'refused' };
}
