import { Secret } from '../model/secret.ts';

/** What stands where a secret stood. */
const MASK = '***';

/** Shorter ones would mask ordinary words; as a credential they would be guessable anyway. */
const SHORTEST_SECRET = 6;

/** Credentials that may come from elsewhere, in an error text of a library for example. */
const URL_CREDENTIALS = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/?#@"']+@/gi;
const AUTHORIZATION = /\b(Bearer|Basic)\s+[A-Za-z0-9\-._~+/]{6,}=*/g;

/** Takes known secrets, in the forms in which they travel, out of any text. */
export class Scrubber {
  readonly #known = new Set<string>();
  #pattern: RegExp | undefined;

  /** Remembers every {@link Secret} inside a value: settings, maps and lists are looked through. */
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
  const parts =
    value instanceof Map || value instanceof Set ? value.values() : Object.values(value);
  for (const part of parts) yield* secretsIn(part, seen);
}

/** As it is, as it stands inside JSON and URLs, and as the base64 of basic authentication. */
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

/** No vendor's key is shorter; a word of theirs, such as an error's code, must stay what it is. */
const SHORTEST_CREDENTIAL = 16;

/**
 * The body of an error answer without the credential that the request carried: should the other side
 * repeat what it was sent, nobody repeats it further (docs/explanation/security.md#d-15). Reasons that are made of it go to
 * logs, statuses and dead letters.
 */
export function withoutCredential(body: string, authorization: string | undefined): string {
  const credential = authorization?.replace(/^\S+ /, '') ?? '';
  return credential.length < SHORTEST_CREDENTIAL ? body : withoutSecret(body, credential);
}

/** A text without a secret of at least one character, also where JSON spells it with escapes. */
export function withoutSecret(text: string, secret: string): string {
  const escaped = JSON.stringify(secret).slice(1, -1);
  return text.replaceAll(escaped, '***').replaceAll(secret, '***');
}
