import type { Request } from 'express';
import { Problem } from './problem.ts';

/**
 * How an answer of a route is held to one tenant, for clients that may see no other (docs/how-to/portal.md#what-a-token-may-read).
 * A route without one is closed to them.
 *
 * `filtered`: its parameter `tenant` is that tenant, whether it is given or not. `named`: its path names the tenant.
 * `shown`: it asks {@link isForeign} of what it is about to show. `same`: its answer is of no tenant.
 */
export type TenantScope = 'filtered' | 'named' | 'shown' | 'same';

/** The one tenant that a request may see; all others may see everything. */
const tenants = new WeakMap<Request, string>();

/** Holds a request to one tenant from here on; throws 403 where its path names another. Only access checks call it. */
export function confine(request: Request, scope: TenantScope, tenant: string): void {
  if (scope === 'named' && request.params['tenant'] !== tenant) throw foreignTenant();
  tenants.set(request, tenant);
}

/** The one tenant that the answer may be about; undefined where it may be about everybody. */
export function tenantOf(request: Request): string | undefined {
  return tenants.get(request);
}

/** Whether what is a tenant's must not be shown: to be answered as if it did not exist. */
export function isForeign(request: Request, owner: string): boolean {
  const tenant = tenants.get(request);
  return tenant !== undefined && owner !== tenant;
}

/** The parameter `tenant` as the answer has to go by it, given what the client asked for. Throws 403 for another tenant. */
export function heldTenant(request: Request, requested: string | undefined): string | undefined {
  const tenant = tenants.get(request);
  if (tenant === undefined) return requested;
  if (requested !== undefined && requested !== tenant) throw foreignTenant();
  return tenant;
}

/** Says nothing of whether there is such a tenant. */
function foreignTenant(): Problem {
  return new Problem(
    403,
    'token not allowed here: tenant: it reads the usage of its own tenant only: leave the tenant out',
  );
}
