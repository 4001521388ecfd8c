import type { Request } from 'express';
import { Problem } from './problem.ts';

/**
 * How a route confines its answer to the tenant of a portal token
 * (docs/how-to/portal.md#what-a-token-may-read). A route without a scope refuses such tokens.
 *
 * - `filtered`: the parameter `tenant` is always that tenant.
 * - `named`: the path names the tenant.
 * - `shown`: the handler checks with {@link isForeign} what it is about to show.
 * - `same`: the answer has no data of any tenant.
 */
export type TenantScope = 'filtered' | 'named' | 'shown' | 'same';

/** The tenant of each confined request. All other requests may read everything. */
const tenants = new WeakMap<Request, string>();

/** Confines a request to one tenant; throws 403 if its path names another. For access checks. */
export function confine(request: Request, scope: TenantScope, tenant: string): void {
  if (scope === 'named' && request.params['tenant'] !== tenant) throw foreignTenant();
  tenants.set(request, tenant);
}

/** The tenant that a request is confined to; undefined when it may read everything. */
export function tenantOf(request: Request): string | undefined {
  return tenants.get(request);
}

/** Whether data of tenant `owner` must be answered as if it did not exist. */
export function isForeign(request: Request, owner: string): boolean {
  const tenant = tenants.get(request);
  return tenant !== undefined && owner !== tenant;
}

/**
 * The tenant to filter by: the one that the request is confined to, or else the requested one.
 * Throws 403 when the request is confined to another tenant.
 */
export function tenantToFilter(
  request: Request,
  requested: string | undefined,
): string | undefined {
  const tenant = tenants.get(request);
  if (tenant === undefined) return requested;
  if (requested !== undefined && requested !== tenant) throw foreignTenant();
  return tenant;
}

/** Does not reveal whether such a tenant exists. */
function foreignTenant(): Problem {
  return new Problem(
    403,
    'token not allowed here: tenant: it reads the usage of its own tenant only: leave the tenant out',
  );
}
