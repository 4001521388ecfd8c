/** No vendor's key is shorter; a word of theirs, such as an error's code, must stay what it is. */
const SHORTEST = 16;

/**
 * The body of an error answer without the credential that the request carried: should the other side
 * repeat what it was sent, nobody repeats it further (security D.15). Reasons that are made of it go to
 * logs, statuses and dead letters.
 */
export function withoutCredential(body: string, authorization: string | undefined): string {
  const credential = authorization?.replace(/^\S+ /, '') ?? '';
  if (credential.length < SHORTEST) return body;
  const escaped = JSON.stringify(credential).slice(1, -1);
  return body.replaceAll(escaped, '***').replaceAll(credential, '***');
}
