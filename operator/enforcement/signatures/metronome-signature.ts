import type { Secret } from '../../model/secret.ts';
import {
  anyMatches,
  hmac,
  type SignatureVerdict,
  type SignedRequest,
  TOLERANCE_SECONDS,
} from './verdict.ts';

const HEADER = 'Metronome-Webhook-Signature';
const DATE_HEADERS = ['X-Metronome-Date', 'Date'] as const;
const SIGNATURE = /^[0-9a-f]{64}$/;
/** `Mon, 02 Jan 2006 22:04:05 GMT` and nothing that only `Date.parse` would understand. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Hex HMAC over `<date header's text>`, a newline and the body (facts/destinations.md 3.7). */
export function verifyMetronome(
  request: SignedRequest,
  secrets: readonly Secret[],
  now: number,
): SignatureVerdict {
  const signature = request.header(HEADER);
  if (signature === undefined) return { kind: 'unsigned', reason: `missing: ${HEADER} header` };
  const date = DATE_HEADERS.map(request.header).find((text) => text !== undefined);
  if (date === undefined || !HTTP_DATE.test(date)) {
    const reason = `missing or not an HTTP date: ${DATE_HEADERS[0]} header`;
    return { kind: 'unsigned', reason };
  }
  if (!SIGNATURE.test(signature)) {
    return { kind: 'unsigned', reason: `not 64 hexadecimal digits: ${HEADER} header` };
  }
  const expected = secrets.map((secret) => hmac(secret, `${date}\n`, request.body));
  const matches = anyMatches([Buffer.from(signature, 'hex')], expected);
  const inTime = Math.abs(now - Date.parse(date)) <= TOLERANCE_SECONDS * 1000;
  return matches && inTime ? { kind: 'signed' } : { kind: 'refused' };
}
