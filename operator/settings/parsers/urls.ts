import { Secret } from '../../model/secret.ts';
import { isForbiddenHost } from './hosts.ts';
import { invalid, type Parsed, type Parser, valid } from './parser.ts';

const FIX = 'write an absolute http or https URL, such as https://billing.example.com';

/** The URL that a destination is posted to. Everything after the host stays as written. */
export function url(): Parser<string> {
  return {
    accepts: 'URL without credentials',
    parse(text) {
      const parsed = parseUrl(text);
      if (parsed.kind === 'problem') return parsed;
      return hasCredentials(parsed.value) ? credentialsProblem() : valid(text);
    },
  };
}

/** The base URL of an API, without query and without a trailing slash. */
export function baseUrl(): Parser<string> {
  return {
    accepts: 'URL without credentials or query',
    parse(text) {
      const parsed = parseBase(text);
      if (parsed.kind === 'problem') return parsed;
      return hasCredentials(parsed.value)
        ? credentialsProblem()
        : valid(withoutSlash(parsed.value));
    },
  };
}

/** URL of a Prometheus API. `user:password@` is returned separately as `basicAuth`. */
export function prometheusUrl(): Parser<{ readonly url: string; readonly basicAuth?: Secret }> {
  return {
    accepts: 'URL, also with `user:password@`',
    parse(text) {
      const parsed = parseBase(text);
      if (parsed.kind === 'problem') return parsed;
      const { value } = parsed;
      if (!hasCredentials(value)) return valid({ url: withoutSlash(value) });
      const user = decode(value.username);
      const password = decode(value.password);
      if (user === undefined || password === undefined) {
        return invalid('credentials that are not percent-encoded correctly', 'write % as %25');
      }
      value.username = '';
      value.password = '';
      return valid({ url: withoutSlash(value), basicAuth: new Secret(`${user}:${password}`) });
    },
  };
}

/** A URL that is safe to show: credentials and query masked, even if it does not parse. */
export function maskUrl(text: string): string {
  const [beforeQuery = '', ...query] = text.split('?');
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(beforeQuery)?.[0] ?? '';
  const rest = beforeQuery.slice(scheme.length);
  const shown = rest.includes('@') ? `***@${rest.slice(rest.lastIndexOf('@') + 1)}` : rest;
  return (
    scheme + (query.join('?').includes('@') ? '***' : shown) + (query.length > 0 ? '?***' : '')
  );
}

function parseUrl(text: string): Parsed<URL> {
  if (!/^https?:\/\/[^/]/i.test(text) || /\s/.test(text) || !URL.canParse(text)) {
    return invalid('not an http or https URL', FIX);
  }
  const value = new URL(text);
  if (value.hash !== '') return invalid('a URL with a fragment', 'remove the part from # on');
  if (isForbiddenHost(value.hostname)) {
    return invalid('a link-local or cloud metadata address', 'name the server itself');
  }
  return valid(value);
}

function parseBase(text: string): Parsed<URL> {
  const parsed = parseUrl(text);
  if (parsed.kind === 'value' && (parsed.value.search !== '' || text.includes('?'))) {
    return invalid('a base URL with a query', 'remove the part from ? on');
  }
  return parsed;
}

function hasCredentials(value: URL): boolean {
  return value.username !== '' || value.password !== '';
}

function credentialsProblem(): Parsed<never> {
  return invalid('a URL with credentials', 'give them in a header or key variable instead');
}

function withoutSlash(value: URL): string {
  return value.href.replace(/\/+$/, '');
}

/** The text of a part of a URL; undefined if its percent signs encode none. */
export function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
