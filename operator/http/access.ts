import { hash, timingSafeEqual } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import type { IngestToken } from '../config/settings.ts';
import type { Secret } from '../model/secret.ts';
import { Problem, tryLater } from './problem.ts';
import type { Tokens } from './tokens.ts';

/**
 * Who may use a route (docs/operations.md#access-to-the-api): `open` everyone; `read` API_TOKEN, or everyone when none
 * is set; `change` API_TOKEN, nobody when none is set; `ingest` INGEST_TOKEN, nobody when none is set.
 */
export type Access = 'open' | 'read' | 'change' | 'ingest';

interface Checks {
  readonly api: TokenCheck;
  readonly ingest: TokenCheck;
  /** By the digest of their token. */
  readonly scopes: ReadonlyMap<string, IngestToken>;
}

/** For clients behind an API server's proxy, which takes the Authorization header away; a browser sends neither by itself. */
const PROXIED_TOKEN_HEADER = 'x-meterfeed-token';

/** Counts a token that was refused. */
export type RefusedTokens = (reason: 'unknown' | 'not-allowed-here' | 'too-many') => void;

export interface AccessOptions {
  /** The tokens that are good now; the same object until they change. */
  readonly tokens: () => Tokens;
  /** Counts an unknown token of an address; false when there were too many of late. */
  readonly mayFail: (address: string) => boolean;
  readonly refused: RefusedTokens;
}

interface Gate {
  readonly access: Access;
  readonly tokens: Tokens;
  readonly checks: Checks;
  readonly refuse: (reason: 'unknown' | 'not-allowed-here') => Problem;
}

/** Gives the middleware for each kind of access. */
export function createAccess(options: AccessOptions): (access: Access) => RequestHandler {
  const checksOf = cacheByIdentity(
    ({ apiTokens, ingestTokens }: Tokens): Checks => ({
      api: createTokenCheck(apiTokens),
      ingest: createTokenCheck(ingestTokens.map(({ token }) => token)),
      scopes: new Map(ingestTokens.map((one) => [fingerprint(one.token.reveal()), one])),
    }),
  );
  return (access) => (request, response, next) => {
    const tokens = options.tokens();
    const refuse = (reason: 'unknown' | 'not-allowed-here'): Problem => {
      const tooMany = reason === 'unknown' && !options.mayFail(request.ip ?? 'unknown');
      options.refused(tooMany ? 'too-many' : reason);
      if (tooMany) return tryLater(429, 60, 'too many unknown tokens: wait, or send a good one');
      return reason === 'unknown' ? unauthorized() : wrongToken(access);
    };
    admit({ access, tokens, checks: checksOf(tokens), refuse }, request, response);
    next();
  };
}

/** The digest of the client's token, or its address when it needs none: the key of its rate limit. */
export function clientKey(request: Request, response: Response): string {
  const digest: unknown = response.locals['client'];
  return typeof digest === 'string' ? digest : (request.ip ?? 'unknown');
}

/** What the client of an `ingest` route may push: the token it showed. */
export function ingestScope(response: Response): Pick<IngestToken, 'metrics' | 'tenants'> {
  const scope: unknown = response.locals['scope'];
  return typeof scope === 'object' && scope !== null ? scope : {};
}

/** Throws the {@link Problem} that keeps the client out. */
function admit(
  { access, tokens, checks, refuse }: Gate,
  request: Request,
  response: Response,
): void {
  if (access === 'open') return;
  const { length } = access === 'ingest' ? tokens.ingestTokens : tokens.apiTokens;
  if (length === 0 && access === 'read') return;
  if (length === 0) throw disabled(access);
  const token = bearerToken(request.headers.authorization ?? request.get(PROXIED_TOKEN_HEADER));
  if (token === undefined) throw unauthorized();
  const digest = fingerprint(token);
  const [own, other] =
    access === 'ingest' ? [checks.ingest, checks.api] : [checks.api, checks.ingest];
  if (!own(digest)) throw refuse(other(digest) ? 'not-allowed-here' : 'unknown');
  response.locals['client'] = digest;
  if (access === 'ingest') response.locals['scope'] = checks.scopes.get(digest);
}

function disabled(access: Access): Problem {
  if (access === 'ingest') {
    return new Problem(403, 'ingest is disabled: set INGEST_TOKEN (or API_TOKEN) to enable it');
  }
  return new Problem(403, 'changes are disabled: no API_TOKEN: set API_TOKEN to enable them');
}

function unauthorized(): Problem {
  const message =
    'missing or invalid bearer token: Authorization header: send "Authorization: Bearer <token>"';
  return new Problem(401, message, { 'WWW-Authenticate': 'Bearer' });
}

function wrongToken(access: Access): Problem {
  const [has, needs] =
    access === 'ingest' ? ['API_TOKEN', 'INGEST_TOKEN'] : ['INGEST_TOKEN', 'API_TOKEN'];
  return new Problem(403, `token not allowed here: ${has}: use a token of ${needs}`);
}

function cacheByIdentity<K, V>(make: (key: K) => V): (key: K) => V {
  let cached: { readonly key: K; readonly value: V } | undefined;
  return (key) => {
    if (cached?.key !== key) cached = { key, value: make(key) };
    return cached.value;
  };
}

/** The hex digest of a token: names a client in memory without keeping its credential. */
function fingerprint(token: string): string {
  return hash('sha256', token, 'hex');
}

/** Tells whether a digest is that of one of the tokens. All are compared, each in constant time, see docs/security.md#d-8. */
type TokenCheck = (digest: string) => boolean;

function createTokenCheck(tokens: readonly Secret[]): TokenCheck {
  const digests = tokens.map((token) => Buffer.from(fingerprint(token.reveal())));
  return (digest) => {
    const candidate = Buffer.from(digest);
    let found = false;
    for (const known of digests) found = timingSafeEqual(known, candidate) || found;
    return found;
  };
}

/** The token of an Authorization header; the word Bearer may be missing, as in the earlier release. */
function bearerToken(header: string | undefined): string | undefined {
  const token = header?.replace(/^Bearer +/i, '').trim();
  return token === '' ? undefined : token;
}
