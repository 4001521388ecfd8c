import type { Secret } from '../model/secret.ts';
import type { SecretRead } from './secret-reader.ts';
import { type InvalidSpec, invalidSpec } from '../config/spec-fields.ts';

/** One key of a Secret, as specs name it. */
export interface SecretKeyRef {
  readonly name: string;
  readonly key: string;
}

/** What was read of the Secrets that a spec names, by name. */
export type SecretReads = ReadonlyMap<string, SecretRead>;

export type SecretLookup = { readonly kind: 'secret'; readonly secret: Secret } | InvalidSpec;

/** A signing key or token travels in headers and signatures: printable, and nothing else. */
const CREDENTIAL = /^[!-~]+$/;
/** What a header's value may hold. */
const HEADER_VALUE = /^[\t -~]+$/;

/** The credential that a field of a spec names. */
export function lookUpCredential(
  field: string,
  ref: SecretKeyRef,
  reads: SecretReads,
): SecretLookup {
  return lookUp(field, ref, reads, CREDENTIAL, 'printable characters without spaces');
}

/** A header's value, which may hold spaces: `Bearer abc`. */
export function lookUpHeaderValue(
  field: string,
  ref: SecretKeyRef,
  reads: SecretReads,
): SecretLookup {
  return lookUp(field, ref, reads, HEADER_VALUE, 'printable ASCII characters on one line');
}

function lookUp(
  field: string,
  { name, key }: SecretKeyRef,
  reads: SecretReads,
  form: RegExp,
  accepted: string,
): SecretLookup {
  const read = reads.get(name);
  if (read?.kind !== 'found') {
    const mend = 'create it in the namespace of the operator';
    return invalidSpec('SecretNotFound', `${field}: no such Secret: "${name}"; ${mend}`);
  }
  const secret = read.values.get(key);
  if (secret === undefined) {
    const mend = `add the key to Secret "${name}"`;
    return invalidSpec('SecretKeyNotFound', `${field}: no such key: "${key}"; ${mend}`);
  }
  if (!form.test(secret.reveal())) {
    const where = `key "${key}" of Secret "${name}"`;
    return invalidSpec(
      'InvalidSecret',
      `${field}: not a usable credential: ${where}; use ${accepted}`,
    );
  }
  return { kind: 'secret', secret };
}
