import type { Secret } from '../../model/secret.ts';
import { anyMatches, hmac, type SignatureVerdict, type SignedRequest } from './verdict.ts';

const HEADER = 'X-Lago-Signature';
const ALGORITHM_HEADER = 'X-Lago-Signature-Algorithm';
export const LAGO_KEY_HEADER = 'X-Lago-Unique-Key';
/** 32 bytes in base64. */
const SIGNATURE = /^[A-Za-z0-9+/]{43}=$/;
const UNIQUE_KEY = /^[!-~]{1,256}$/;

/**
 * Base64 HMAC over the body (facts/destinations.md 1.5). It carries no time: a repeat is known by its
 * unique key, which the request must have.
 */
export function verifyLago(request: SignedRequest, secrets: readonly Secret[]): SignatureVerdict {
  const algorithm = request.header(ALGORITHM_HEADER);
  if (algorithm !== undefined && algorithm.toLowerCase() !== 'hmac') {
    const mend = 'set signature_algo of the webhook endpoint to hmac';
    return { kind: 'unsigned', reason: `not hmac: ${ALGORITHM_HEADER} header; ${mend}` };
  }
  const signature = request.header(HEADER);
  if (signature === undefined || !SIGNATURE.test(signature)) {
    return { kind: 'unsigned', reason: `missing or not an HMAC in base64: ${HEADER} header` };
  }
  if (!UNIQUE_KEY.test(request.header(LAGO_KEY_HEADER) ?? '')) {
    return { kind: 'unsigned', reason: `missing: ${LAGO_KEY_HEADER} header` };
  }
  const expected = secrets.map((secret) => hmac(secret, request.body));
  const matches = anyMatches([Buffer.from(signature, 'base64')], expected);
  return matches ? { kind: 'signed' } : { kind: 'refused' };
}
