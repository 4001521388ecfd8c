import { createPrivateKey, createPublicKey, hash, type KeyObject } from 'node:crypto';
import { signingAlgorithm } from '../../settings/parsers/signing-keys.ts';
import type { Secret } from '../../model/secret.ts';

const KEY_ID_CHARACTERS = 16;

/** A key that signs, with its public half. */
export interface SigningKey {
  /** Derived from the key, so that it is the same in every process. */
  readonly id: string;
  /** In the names of JSON Web Tokens: `EdDSA` or `ES256`. */
  readonly algorithm: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/** The keys of PORTAL_KEYS_FILE, each read once. */
export class SigningKeys {
  readonly #pems: () => readonly Secret[];
  #read: { readonly of: readonly Secret[]; readonly keys: readonly SigningKey[] } | undefined;

  /** `pems` returns the same list until the keys change. */
  constructor(pems: () => readonly Secret[]) {
    this.#pems = pems;
  }

  /** All keys in the order of the file. */
  all(): readonly SigningKey[] {
    const of = this.#pems();
    if (this.#read?.of !== of) this.#read = { of, keys: of.flatMap(signingKey) };
    return this.#read.keys;
  }
}

/** Reads a key. None for one that cannot sign, which the settings refuse. */
function signingKey(pem: Secret): readonly SigningKey[] {
  const privateKey = createPrivateKey(pem.reveal());
  const algorithm = signingAlgorithm(privateKey);
  if (algorithm === undefined) return [];
  const publicKey = createPublicKey(privateKey);
  const der = publicKey.export({ type: 'spki', format: 'der' });
  const id = hash('sha256', der, 'base64url').slice(0, KEY_ID_CHARACTERS);
  return [{ id, algorithm, privateKey, publicKey }];
}
