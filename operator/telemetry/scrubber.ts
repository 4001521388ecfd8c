import { Secret } from '../model/secret.ts';

/** Replaces a secret. */
const MASK = '***';

/** Shorter secrets would mask ordinary words. As credentials they would be easy to guess anyway. */
const SHORTEST_SECRET = 6;

/** Patterns of credentials from elsewhere, for example in an error text of a library. */
const URL_CREDENTIALS = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/?#@"']+@/gi;
const AUTHORIZATION = /\b(Bearer|Basic)\s+[A-Za-z0-9\-._~+/]{6,}=*/g;

/** Masks known secrets in any text, in all forms in which they are sent. */
export class Scrubber {
  readonly #known = new Set<string>();
  #pattern: RegExp | undefined;

  /** Adds every {@link Secret} inside a value. Settings, maps and lists are searched. */
  learn(value: unknown): void {
    for (const secret of secretsIn(value, new Set())) {
      for (const form of formsOf(secret.reveal())) this.#known.add(form);
    }
    this.#pattern = toPattern(this.#known);
  }

  readonly scrub = (text: string): string => {
    const clean = this.#pattern === undefined ? text : text.replace(this.#pattern, MASK);
    return clean.replace(URL_CREDENTIALS, `$1${MASK}@`).replace(AUTHORIZATION, `$1 ${MASK}`);
  };
}

function* secretsIn(value: unknown, seen: Set<object>): Generator<Secret> {
  if (typeof value !== 'object' || value === null || seen.has(value)) return;
  seen.add(value);
  if (value instanceof Secret) {
    yield value;
    return;
  }
  const members =
    value instanceof Map || value instanceof Set ? value.values() : Object.values(value);
  for (const part of members) yield* secretsIn(part, seen);
}

/** The secret itself, its forms inside JSON and URLs, and its base64 as in basic authentication. */
function formsOf(text: string): string[] {
  if (text.length < SHORTEST_SECRET) return [];
  return [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text.toWellFormed()),
    Buffer.from(text).toString('base64').replace(/=+$/, ''),
  ];
}

function toPattern(known: ReadonlySet<string>): RegExp | undefined {
  if (known.size === 0) return undefined;
  const longestFirst = [...known].toSorted((a, b) => b.length - a.length);
  return new RegExp(
    longestFirst.map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|'),
    'g',
  );
}

/** No vendor's key is shorter. Short words, such as an error code, must stay readable. */
const SHORTEST_CREDENTIAL = 16;

/**
 * Masks the request's credential in the body of an error answer, in case the server repeats it
 * (docs/explanation/security.md#d-15). Reasons from such bodies go to logs, statuses and dead
 * letters.
 */
export function withoutCredential(body: string, authorization: string | undefined): string {
  const credential = authorization?.replace(/^\S+ /, '') ?? '';
  return credential.length < SHORTEST_CREDENTIAL ? body : withoutSecret(body, credential);
}

/** Masks a secret of at least one character in a text, also where JSON escapes it. */
export function withoutSecret(text: string, secret: string): string {
  const escaped = JSON.stringify(secret).slice(1, -1);
  return text.replaceAll(escaped, '***').replaceAll(secret, '***');
}
