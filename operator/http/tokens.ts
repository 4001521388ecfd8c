import { hash, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../model/secret.ts';

/** The hex digest of a token: names a client in memory without keeping its credential. */
export function fingerprint(token: string): string {
  return hash('sha256', token, 'hex');
}

/** Tells whether a digest is that of one of the tokens. All are compared, each in constant time (security D.8). */
export type TokenCheck = (digest: string) => boolean;

export function createTokenCheck(tokens: readonly Secret[]): TokenCheck {
  const digests = tokens.map((token) => Buffer.from(fingerprint(token.reveal())));
  return (digest) => {
    const candidate = Buffer.from(digest);
    let found = false;
    for (const known of digests) found = timingSafeEqual(known, candidate) || found;
    return found;
  };
}

/** The token of an Authorization header; the word Bearer may be missing, as in the earlier release. */
export function bearerToken(header: string | undefined): string | undefined {
  const token = header?.replace(/^Bearer +/i, '').trim();
  return token === '' ? undefined : token;
}
