import type { Request } from 'express';
import { duration } from '../../settings/parsers/durations.ts';
import { quote } from '../../model/validate-event.ts';
import type { ConcurrencyLimit } from '../limits.ts';
import { isoTime } from '../presentation.ts';
import { isTokenIdOf } from '../portal/portal-tokens.ts';
import { badRequest, Problem, refuseUnwritten } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import { readBody, readFields, refuseBody } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';
import { requireTenant } from './tenants.ts';

const PATH = '/api/v1/tenants/{tenant}/portal-tokens';
const MAX_BODY_BYTES = 1024;
const VALIDITY = duration('1m', '24h');
const DEFAULT_VALIDITY_MS = 3_600_000;
const LONGEST_TENANT = 400;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Creates and revokes portal tokens, with which a tenant reads its own usage
 * (docs/how-to/portal.md#tokens).
 */
export function portalTokenRoutes(
  context: RouteContext,
  memory: ConcurrencyLimit,
): readonly Route[] {
  const { portal, logger } = context;
  return [
    {
      method: 'post',
      path: PATH,
      access: 'change',
      hub: 'refused',
      summary: 'create a portal token, with which a tenant reads its own usage',
      handlers: [
        readBody({ maxBytes: MAX_BODY_BYTES, memory, optional: true }),
        async (request, response) => {
          readQuery(request, []);
          refuseWithoutKeys(context);
          const tenant = pathParameter(request, 'tenant');
          requireTenant(context, tenant);
          const minted = await portal.mint(tenant, readValidity(request));
          if (minted === undefined) throw noPortal();
          const { id, token, expiresAt } = minted;
          const expires = isoTime(expiresAt);
          logger.info('[http] an operator created a portal token', { tenant, id, expires });
          response.status(201).json({
            id,
            tenant,
            token,
            expires_at: expires,
            // Browsers do not send a fragment, so no log of a server or proxy has it.
            link: `/portal#token=${token}`,
          });
        },
      ],
    },
    {
      method: 'delete',
      path: PATH,
      access: 'change',
      hub: 'refused',
      summary: 'revoke all portal tokens of a tenant',
      handlers: [
        refuseBody,
        async (request, response) => {
          readQuery(request, []);
          refuseWithoutKeys(context);
          const tenant = anyTenant(request);
          refuseUnwritten(await portal.revoke(tenant), 'nothing was revoked');
          logger.info('[http] an operator revoked all portal tokens', { tenant });
          response.json({ tenant, revoked: 'all' });
        },
      ],
    },
    {
      method: 'delete',
      path: `${PATH}/{id}`,
      access: 'change',
      hub: 'refused',
      summary: 'revoke one portal token of a tenant',
      handlers: [
        refuseBody,
        async (request, response) => {
          readQuery(request, []);
          refuseWithoutKeys(context);
          const tenant = anyTenant(request);
          const id = readTokenId(request, tenant);
          refuseUnwritten(await portal.revoke(tenant, id), 'nothing was revoked');
          logger.info('[http] an operator revoked a portal token', { tenant, id });
          response.json({ tenant, revoked: id });
        },
      ],
    },
  ];
}

function readTokenId(request: Request, tenant: string): string {
  const id = pathParameter(request, 'id');
  if (!ID.test(id)) {
    throw badRequest(`not an id of a token: id: ${quote(id)}: take the one it was made with`);
  }
  if (!isTokenIdOf(tenant, id)) {
    throw new Problem(404, `no such token of ${quote(tenant)}: id: ${quote(id)}`);
  }
  return id;
}

function refuseWithoutKeys({ portal }: RouteContext): void {
  if (!portal.isOn()) throw noPortal();
}

/** The 404 of every route of the portal while there is no key. */
export function noPortal(): Problem {
  return new Problem(
    404,
    'there is no portal: no key: set PORTAL_KEYS_FILE (docs/how-to/portal.md)',
  );
}

/** The tenant of the path, also one that is gone: its tokens can still be revoked. */
function anyTenant(request: Request): string {
  const id = pathParameter(request, 'tenant');
  if (id.length <= LONGEST_TENANT) return id;
  throw badRequest(`not a tenant: tenant: ${quote(id)}: at most ${LONGEST_TENANT} characters`);
}

function readValidity(request: Request): number {
  if (request.body === undefined) return DEFAULT_VALIDITY_MS;
  const { valid_for: text } = readFields(request.body, ['valid_for'], '{"valid_for": "1h"}');
  if (text === undefined) return DEFAULT_VALIDITY_MS;
  const parsed = VALIDITY.parse(typeof text === 'string' ? text : '');
  if (parsed.kind === 'value') return parsed.value;
  throw badRequest(`${parsed.what}: valid_for: ${quote(text)}: ${parsed.fix}`);
}
