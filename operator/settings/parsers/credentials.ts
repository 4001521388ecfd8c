import { Secret } from '../../model/secret.ts';
import { splitItems } from './lists.ts';
import { invalid, type Parser, valid } from './parser.ts';

/** A token of `POST /api/v1/events` with its scope. Without a list it may push everything. */
export interface IngestToken {
  readonly token: Secret;
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

const SCOPE_FORM = 'write token;metrics=a|b;tenants=x|y, each part once and not empty';

/** As {@link secrets}, each with an optional scope: `token;metrics=a|b;tenants=x|y`. */
export function ingestTokens(): Parser<readonly IngestToken[]> {
  const plain = secrets();
  return {
    accepts: `${plain.accepts} with optional \`;metrics=a\\|b;tenants=x\\|y\``,
    parse(text) {
      const parsed = plain.parse(text);
      if (parsed.kind === 'problem') return parsed;
      const tokens: IngestToken[] = [];
      for (const item of parsed.value) {
        const token = withScope(item.reveal());
        if (token === undefined) return invalid('not a scope', SCOPE_FORM);
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
    const known = name === 'metrics' || name === 'tenants';
    if (!known || scope.has(name) || items.includes('')) return undefined;
    scope.set(name, items);
  }
  if (at === 0) return undefined;
  const [metrics, tenants] = [scope.get('metrics'), scope.get('tenants')];
  return { token: new Secret(text.slice(0, at)), metrics, tenants };
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
