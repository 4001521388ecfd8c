import type { JsonWebKey } from 'node:crypto';
import { CompactSign } from 'jose';
import type { SigningKey } from './signing-keys.ts';

/** In the header of each signature, so that none can pass for a portal token. */
const TYPE = 'meterfeed-statement';
/** The public keys are Ed25519 only, which a short program can check without a library. */
const ALGORITHM = 'EdDSA';

/** Whether a key can sign statements. */
export function isEd25519({ algorithm }: SigningKey): boolean {
  return algorithm === ALGORITHM;
}

/** The JSON Web Signature of a payload, compact (RFC 7515, section 3.1). */
export function signStatement({ id, privateKey }: SigningKey, payload: object): Promise<string> {
  return new CompactSign(Buffer.from(JSON.stringify(payload)))
    .setProtectedHeader({ alg: ALGORITHM, kid: id, typ: TYPE })
    .sign(privateKey);
}

/** The public half as a JSON Web Key. */
export function publicKeyOf({ id, publicKey }: SigningKey): JsonWebKey {
  return { ...publicKey.export({ format: 'jwk' }), kid: id, alg: ALGORITHM, use: 'sig' };
}
