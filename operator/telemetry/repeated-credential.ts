/** No vendor's key is shorter; a word of theirs, such as an error's code, must stay what it is. */
const SHORTEST = 16;

/**
 * The body of an error answer without the credential that the request carried: should the other side
 * repeat what it was sent, nobody repeats it further (security D.15). Reasons that are made of it go to
 * logs, statuses and dead letters.
 */
export function withoutCredential(body: string, authorization: string | undefined): string {
  const credential = authorization?.replace(/^\S+ /, '') ?? '';
  return credential.length < SHORTEST ? body : withoutSecret(body, credential);
}

/** A text without a secret of at least one character, also where JSON spells it with escapes. */
export function withoutSecret(text: string, secret: string): string {
  const escaped = JSON.stringify(secret).slice(1, -1);
  return text.replaceAll(escaped, '***').replaceAll(secret, '***');
}
