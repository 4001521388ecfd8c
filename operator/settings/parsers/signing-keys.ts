import { createPrivateKey, type KeyObject } from 'node:crypto';
import { Secret } from '../../model/secret.ts';
import { invalid, type ParseProblem, type Parser, valid } from './parser.ts';

const BLOCK = /-----BEGIN ((?:EC )?PRIVATE KEY)-----[\w+/=\s]+?-----END \1-----/g;
const FIX = 'make one with: openssl genpkey -algorithm ed25519';
/** Enough for a rotation. A token is tried only with its own key. */
const MOST_KEYS = 8;

/** Private keys for signing, in PEM. The first one signs; signatures of all are valid. */
export function signingKeys(): Parser<readonly Secret[]> {
  return {
    accepts: 'PEM keys, Ed25519 or ECDSA P-256',
    parse(text) {
      // The faulty part is not shown: it is a credential.
      if (text.replaceAll(BLOCK, '').trim() !== '') {
        return invalid('not private keys in PEM and nothing else', FIX);
      }
      const blocks = [...text.matchAll(BLOCK)].map(([block]) => block);
      if (blocks.length === 0) return invalid('no private key', FIX);
      if (blocks.length > MOST_KEYS) {
        return invalid('too many keys', `keep at most ${MOST_KEYS}, the newest first`);
      }
      const problem = blocks.map(keyProblem).find((one) => one !== undefined);
      return problem ?? valid(blocks.map((block) => new Secret(block)));
    },
  };
}

/** A private key's algorithm in names of JSON Web Tokens; undefined for unsupported keys. */
export function signingAlgorithm(key: KeyObject): 'EdDSA' | 'ES256' | undefined {
  if (key.asymmetricKeyType === 'ed25519') return 'EdDSA';
  const isP256 = key.asymmetricKeyDetails?.namedCurve === 'prime256v1';
  return key.asymmetricKeyType === 'ec' && isP256 ? 'ES256' : undefined;
}

function keyProblem(block: string): ParseProblem | undefined {
  try {
    if (signingAlgorithm(createPrivateKey(block)) !== undefined) return undefined;
    return invalid('a key of another kind than Ed25519 or ECDSA P-256', FIX);
  } catch {
    return invalid('a private key that cannot be read', FIX);
  }
}
