import { hash, timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { IngestToken, TokenUse } from '../settings/settings.ts';
import type { Secret } from '../model/secret.ts';
import type { SignedToken } from './portal/portal-tokens.ts';
import { Problem, tryLater } from './problem.ts';
import { confine, type TenantScope } from './scope.ts';
import type { Tokens } from './tokens.ts';

/**
 * Who may use a route (docs/how-to/ingress-and-single-sign-on.md#access-to-the-api):
 *
 * - `open`: everyone.
 * - `read`: API_TOKEN. Everyone when neither an API_TOKEN nor a portal key is set.
 * - `change`: API_TOKEN. Nobody when none is set.
 * - `ingest`: INGEST_TOKEN. Nobody when none is set.
 * - `access`: INGEST_TOKEN with `use=access`, or API_TOKEN. Nobody when neither is set.
 *
 * Portal tokens (docs/how-to/portal.md) may use `read` routes that have a {@link TenantScope}.
 */
export type Access = 'open' | 'read' | 'change' | 'ingest' | 'access';

/** Returns true for the routes that tokens of INGEST_TOKEN may use. */
export function isForGateways(access: Access): boolean {
  return access === 'ingest' || access === 'access';
}

interface Checks {
  readonly api: TokenCheck;
  readonly ingest: TokenCheck;
  /** The scope of each ingest token, by the token's digest. */
  readonly scopes: ReadonlyMap<string, IngestToken>;
}

/**
 * The start of the paths of senders without a header, before the path of an `ingest` or `access`
 * route (docs/how-to/ai-gateways.md#senders-without-a-token). Only the route's template may be
 * logged.
 */
export const SECRET_PATH = '/ingest/{secret}';
const SECRET_PARAMETER = 'secret';

/**
 * Carries the token of clients behind an API server's proxy, which removes the Authorization
 * header. A browser sends neither header by itself.
 */
const PROXIED_TOKEN_HEADER = 'x-meterfeed-token';

/** Counts a refused token. */
export type RefusedTokens = (reason: 'unknown' | 'ended' | 'not-allowed-here' | 'too-many') => void;

type Refusal = 'unknown' | 'ended' | 'not-allowed-here';

interface Guard {
  readonly access: Access;
  /** How the route confines a portal token; undefined where portal tokens are refused. */
  readonly tenantScope: TenantScope | undefined;
  readonly tokens: Tokens;
  readonly checks: Checks;
  /** `lacks`: what the token is not for. */
  readonly refuse: (reason: Refusal, lacks?: TokenUse) => Problem;
  readonly checkSigned: (token: string) => Promise<SignedToken>;
}

/**
 * Returns the middleware for each kind of access. It alone decides what a request may read:
 * everything, or the data of one tenant (`scope.ts`).
 */
export function createAccess(options: {
  /** The tokens that are valid now; the same object until they change. */
  readonly tokens: () => Tokens;
  /** Counts an address's unknown token. False if it sent too many in the last minute. */
  readonly mayFail: (address: string) => boolean;
  readonly refused: RefusedTokens;
  readonly checkSigned: (token: string) => Promise<SignedToken>;
}): (access: Access, tenantScope?: TenantScope) => RequestHandler {
  const checksOf = cacheByIdentity(
    ({ apiTokens, ingestTokens }: Tokens): Checks => ({
      api: createTokenCheck(apiTokens),
      ingest: createTokenCheck(ingestTokens.map(({ token }) => token)),
      scopes: new Map(ingestTokens.map((one) => [fingerprint(one.token.reveal()), one])),
    }),
  );
  const { checkSigned } = options;
  return (access, tenantScope) => (request, response, next) => {
    const tokens = options.tokens();
    const refuse = (reason: Refusal, lacks?: TokenUse): Problem => {
      const tooMany = reason === 'unknown' && !options.mayFail(request.ip ?? 'unknown');
      options.refused(tooMany ? 'too-many' : reason);
      if (tooMany) return tryLater(429, 60, 'too many unknown tokens: wait, or send a valid one');
      if (reason === 'ended') return ended();
      return reason === 'unknown' ? unauthorized() : wrongToken(access, lacks);
    };
    const guard = { access, tenantScope, tokens, checks: checksOf(tokens), refuse, checkSigned };
    const signed = admit(guard, request, response);
    // Without a signed token there is nothing to wait for.
    if (signed !== undefined) return admitTenant(guard, signed, request, response, next);
    next();
    return undefined;
  };
}

/** True when reading needs a token and the request has none. A proxy in front may add the token. */
export function lacksToken({ apiTokens, portalKeys }: Tokens, request: Request): boolean {
  return (apiTokens.length > 0 || portalKeys.length > 0) && tokenOf(request) === undefined;
}

function tokenOf(request: Request): string | undefined {
  return bearerToken(request.headers.authorization ?? request.get(PROXIED_TOKEN_HEADER));
}

/** The key of a client's rate limit: the digest of its token, or its address when it needs none. */
export function clientKey(request: Request, response: Response): string {
  const digest: unknown = response.locals['client'];
  return typeof digest === 'string' ? digest : (request.ip ?? 'unknown');
}

/** The metrics and tenants that the client of an `ingest` or `access` route may name. */
export function ingestScope(response: Response): Pick<IngestToken, 'metrics' | 'tenants'> {
  const scope: unknown = response.locals['scope'];
  return typeof scope === 'object' && scope !== null ? scope : {};
}

/**
 * Throws a {@link Problem} when the client may not use the route. Returns the token when it must
 * still be checked as a portal token.
 */
function admit(
  { access, tokens, checks, refuse }: Guard,
  request: Request,
  response: Response,
): string | undefined {
  if (access === 'open') return undefined;
  const hasPortal = tokens.portalKeys.length > 0;
  const isIngest = isForGateways(access);
  const length =
    (isIngest ? tokens.ingestTokens.length : 0) +
    (access === 'ingest' ? 0 : tokens.apiTokens.length);
  if (length === 0 && access === 'read' && !hasPortal) return undefined;
  if (length === 0 && access !== 'read') throw disabled(access);
  const inPath = request.params[SECRET_PARAMETER];
  const token = typeof inPath === 'string' ? inPath : tokenOf(request);
  if (token === undefined) throw unauthorized();
  const digest = fingerprint(token);
  const scope = checks.ingest(digest) ? checks.scopes.get(digest) : undefined;
  const isApi = inPath === undefined && checks.api(digest);
  const lacks = isIngest && scope !== undefined ? lackedUse(scope, access, inPath) : undefined;
  const isOwn = isIngest && scope !== undefined && lacks === undefined;
  if (isOwn || (isApi && access !== 'ingest')) {
    response.locals['client'] = digest;
    if (isOwn) response.locals['scope'] = scope;
    return undefined;
  }
  if (isApi || scope !== undefined) throw refuse('not-allowed-here', lacks);
  if (hasPortal && SIGNED.test(token)) return token;
  throw refuse('unknown');
}

/** A use that the request needs and the token has not; undefined when it has all. */
function lackedUse(
  { uses = ['events'] }: IngestToken,
  access: Access,
  inPath: unknown,
): TokenUse | undefined {
  const needed: TokenUse[] = [access === 'access' ? 'access' : 'events'];
  if (inPath !== undefined) needed.push('path');
  return needed.find((use) => !uses.includes(use));
}

/**
 * Checks a portal token and confines the request to its tenant. Throws a {@link Problem} when the
 * token is not valid for the route.
 */
async function admitTenant(
  { access, tenantScope, refuse, checkSigned }: Guard,
  token: string,
  request: Request,
  response: Response,
  next: NextFunction,
): Promise<void> {
  const signed = await checkSigned(token);
  if (signed.kind !== 'good') throw refuse(signed.kind);
  if (access !== 'read' || tenantScope === undefined) {
    refuse('not-allowed-here');
    throw new Problem(403, 'token not allowed here: portal: it reads the usage of its tenant only');
  }
  response.locals['client'] = fingerprint(token);
  confine(request, tenantScope, signed.claims.tenant);
  next();
}

/** The form of a signed JSON Web Token (RFC 7515, section 7.1). */
const SIGNED = /^[\w-]+\.[\w-]+\.[\w-]+$/;

function ended(): Problem {
  const message = 'token not valid: it has expired or was revoked: request a new one';
  return new Problem(401, message, { 'WWW-Authenticate': 'Bearer error="invalid_token"' });
}

function disabled(access: Access): Problem {
  if (access === 'access') {
    const fix = 'set INGEST_TOKEN with ;use=access (or API_TOKEN) to enable them';
    return new Problem(403, `access checks are disabled: ${fix}`);
  }
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

function wrongToken(access: Access, lacks: TokenUse | undefined): Problem {
  if (lacks !== undefined) {
    const fix = `use one whose scope has "${lacks}" in use=`;
    return new Problem(403, `token not allowed here: INGEST_TOKEN: ${fix}`);
  }
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

/** The hex digest of a token. It identifies a client in memory without its credential. */
function fingerprint(token: string): string {
  return hash('sha256', token, 'hex');
}

/**
 * True for the digest of one of the tokens. It compares all of them, each in constant time, see
 * docs/explanation/security.md#d-8.
 */
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

/** The token of an Authorization header. Clients of the earlier release omit `Bearer`. */
function bearerToken(header: string | undefined): string | undefined {
  const token = header?.replace(/^Bearer +/i, '').trim();
  return token === '' ? undefined : token;
}
