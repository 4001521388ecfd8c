import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { isRecord } from '../../model/is-record.ts';
import { parseJson } from '../../model/parse-json.ts';

const TOKEN = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

/** Returns whether a text has the form of a signed JWT. */
export function isJwt(text: string): boolean {
  return TOKEN.test(text);
}

/**
 * Returns the `data` of a JWT that one of the keys (PEM) signed with RS256; undefined for any other
 * token. Accepting other algorithms would let the token choose how it is verified.
 */
export function dataOfJwt(token: string, keys: readonly string[]): string | undefined {
  const [head = '', claims = '', signature = ''] = token.split('.');
  if (objectIn(head)?.['alg'] !== 'RS256') return undefined;
  const signed = Buffer.from(`${head}.${claims}`);
  const bytes = Buffer.from(signature, 'base64url');
  const isOurs = keys.some((pem) => {
    const key = rsaKey(pem);
    return key !== undefined && verify('RSA-SHA256', signed, key, bytes);
  });
  const data = isOurs ? objectIn(claims)?.['data'] : undefined;
  return typeof data === 'string' ? data : undefined;
}

/** Parses a public RSA key; undefined for anything else. */
export function rsaKey(pem: string): KeyObject | undefined {
  try {
    const key = createPublicKey(pem);
    return key.asymmetricKeyType === 'rsa' ? key : undefined;
  } catch {
    return undefined;
  }
}

function objectIn(part: string): Readonly<Record<string, unknown>> | undefined {
  const value = parseJson(Buffer.from(part, 'base64url').toString());
  return isRecord(value) ? value : undefined;
}
