import { Secret } from '../../model/secret.ts';
import { splitItems } from './lists.ts';
import { invalid, type Parser, valid } from './parser.ts';

/** What an ingest token is for: to push usage, to ask for access, and to stand in a path. */
export type TokenUse = (typeof TOKEN_USES)[number];

const TOKEN_USES = ['events', 'access', 'path'] as const;

/** A token of `POST /api/v1/events` with its scope. Without a list it may push everything. */
export interface IngestToken {
  readonly token: Secret;
  /** `events` alone when absent (docs/how-to/ai-gateways.md#tokens). */
  readonly uses?: readonly TokenUse[];
  /** Metric codes of the catalogue. */
  readonly metrics?: readonly string[];
  readonly tenants?: readonly string[];
}

const PRINTABLE = /^[!-~]+$/;
const FORM = 'printable ASCII characters without spaces';

/** One credential. */
export function secret(): Parser<Secret> {
  return {
    accepts: FORM,
    parse(text) {
      const problem = secretProblem(text);
      return problem ?? valid(new Secret(text));
    },
  };
}

/** Several credentials that are valid at the same time, for rotation. */
export function secrets(): Parser<readonly Secret[]> {
  return {
    accepts: `list of ${FORM}`,
    parse(text) {
      if (text === '') return secretProblem(text) ?? valid([]);
      const split = splitItems(text);
      // The faulty item is not shown: it is a credential.
      if (split.kind === 'problem') return invalid(split.what, split.fix);
      for (const item of split.value) {
        const problem = secretProblem(item);
        if (problem !== undefined) return problem;
      }
      return valid(split.value.map((item) => new Secret(item)));
    },
  };
}

const SCOPE_FORM =
  'write token;metrics=a|b;tenants=x|y;use=events|access|path, each part once and not empty';

/** A secret in a path: nobody guesses it, and no client has to encode it. */
const PATH_SECRET = /^[A-Za-z0-9._~-]{24,}$/;

/** As {@link secrets}, each with an optional scope: `token;metrics=a|b;tenants=x|y;use=events`. */
export function ingestTokens(): Parser<readonly IngestToken[]> {
  const plain = secrets();
  return {
    accepts: `${plain.accepts} with optional \`;metrics=a\\|b;tenants=x\\|y;use=events\\|access\\|path\``,
    parse(text) {
      const parsed = plain.parse(text);
      if (parsed.kind === 'problem') return parsed;
      const tokens: IngestToken[] = [];
      for (const item of parsed.value) {
        const token = withScope(item.reveal());
        if (token === undefined) return invalid('not a scope', SCOPE_FORM);
        if (!isUsable(token)) {
          const form = 'take at least 24 of A-Z, a-z, 0-9, ".", "_", "~", "-"';
          return invalid('not for a path', `${form}, with use=events|path or use=access|path`);
        }
        tokens.push(token);
      }
      const distinct = new Set(tokens.map(({ token }) => token.reveal()));
      if (distinct.size === tokens.length) return valid(tokens);
      return invalid('listed twice', 'name each token once, with all of its scope');
    },
  };
}

/**
 * Splits a token from its scope. A `;` belongs to the token unless `name=` follows. Undefined for
 * an invalid scope.
 */
function withScope(text: string): IngestToken | undefined {
  const at = text.search(/;\w+=/);
  if (at < 0) return { token: new Secret(text) };
  const scope = new Map<string, readonly string[]>();
  for (const part of text.slice(at + 1).split(';')) {
    const [name = '', ...values] = part.split('=');
    const items = values.join('=').split('|');
    const known = name === 'metrics' || name === 'tenants' || name === 'use';
    if (!known || scope.has(name) || items.includes('')) return undefined;
    scope.set(name, items);
  }
  if (at === 0) return undefined;
  const [metrics, tenants, named] = ['metrics', 'tenants', 'use'].map((name) => scope.get(name));
  const uses = named && TOKEN_USES.filter((use) => named.includes(use));
  if (uses?.length !== named?.length) return undefined;
  return { token: new Secret(text.slice(0, at)), metrics, tenants, ...(uses && { uses }) };
}

function isUsable({ token, uses }: IngestToken): boolean {
  if (uses?.includes('path') !== true) return true;
  return uses.length > 1 && PATH_SECRET.test(token.reveal());
}

function secretProblem(text: string) {
  if (text === '') return invalid('blank', 'give the credential, or remove the variable');
  if (!PRINTABLE.test(text)) return invalid('not a credential', `use ${FORM}`);
  return undefined;
}

const TOKEN = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const VALUE = /^[\t -~]+$/;

/** Headers that the operator or the HTTP client itself sets. */
const RESERVED = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'host',
  'transfer-encoding',
  'x-svc-signature',
]);

/** `Name=value,Name=value`. A value may have `=` but no comma. Each counts as a credential. */
export function headers(): Parser<ReadonlyMap<string, Secret>> {
  const fix = 'write Name=value,Name=value';
  return {
    accepts: '`Name=value,Name=value`',
    parse(text) {
      const entries = new Map<string, Secret>();
      const seen = new Set<string>();
      for (const item of text.split(',')) {
        const at = item.indexOf('=');
        const name = item.slice(0, Math.max(at, 0)).trim();
        const value = item.slice(at + 1).trim();
        if (at < 0 || !TOKEN.test(name)) return invalid('an item that is no Name=value', fix);
        if (!VALUE.test(value)) return invalid(`no usable value for header ${name}`, fix);
        if (RESERVED.has(name.toLowerCase())) {
          return invalid(`header ${name} is set by the operator`, 'leave it out');
        }
        if (seen.has(name.toLowerCase())) return invalid(`header ${name} twice`, 'name it once');
        seen.add(name.toLowerCase());
        entries.set(name, new Secret(value));
      }
      return valid(entries);
    },
  };
}
