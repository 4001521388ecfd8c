import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { type JWTPayload, SignJWT } from 'jose';

/** A new private key in PEM. */
export function newKey(kind: 'ed25519' | 'p256' = 'ed25519'): string {
  const { privateKey } =
    kind === 'ed25519'
      ? generateKeyPairSync('ed25519')
      : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** Signs any claims with any key, for tokens that the operator would never make. */
export function forge(
  key: string | KeyObject | Uint8Array,
  claims: JWTPayload,
  header: { readonly alg: string; readonly kid?: string },
): Promise<string> {
  const signer = typeof key === 'string' ? createPrivateKey(key) : key;
  return new SignJWT(claims).setProtectedHeader(header).sign(signer);
}

/** What a token says, unchecked. */
export function claimsOf(token: string): {
  readonly header: { readonly alg: string; readonly kid: string };
  readonly claims: JWTPayload;
} {
  const [header, claims] = token
    .split('.')
    .slice(0, 2)
    .map((part): unknown => JSON.parse(Buffer.from(part, 'base64url').toString()));
  return { header: header as never, claims: claims as never };
}
